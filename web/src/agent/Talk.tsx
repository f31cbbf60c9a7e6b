import { useEffect, useMemo, useRef, useState } from "react";
import { isOpen } from "../parts/status";
import type { Agent } from "../api/types";
import { useClient, type Loaded } from "../api/use";
import { useJournal, type Follower } from "../journal/follow";
import { Loading } from "../parts/State";
import { TodoList } from "../tools/todos";
import { words } from "../words";
import { Conversation } from "./Conversation";
import { FollowUp } from "./FollowUp";
import { Fork } from "./Fork";
import { useOutgoing, type Outgoing } from "../store/queue";
import type { Finding } from "./finding";
import { Edit, TurnContext, type Point } from "./turns";

export const look = 2_500; // polling interval of an agent's state, in milliseconds

/** The state of an agent in a conversation with it. */
export type Talking = { follower: Follower; busy: boolean; outgoing: readonly Outgoing[]; sent: () => void };

/** useTalk follows an agent and sends prompts to it, whichever tab is open. */
export function useTalk(id: string, { data: agent, reload }: Loaded<Agent>): Talking {
  const client = useClient();
  const follower = useJournal(client, id);
  const { working } = follower.transcript;
  const worked = useRef(working);
  useEffect(() => {
    if (worked.current === working) return;
    worked.current = working;
    reload(); // the agent has changed, too
  }, [working, reload]);
  const outgoing = useOutgoing(client, id, reload);
  return { follower, busy: agent ? isOpen(agent) || working : true, outgoing, sent: reload };
}

/** The conversation with an agent, and the box for the next prompt. */
export function Talk({ agent, talking: { follower, busy, outgoing, sent }, finding }: { agent: Agent; talking: Talking; finding: Finding }) {
  const id = agent.id;
  const t = follower.transcript;
  const [forking, setForking] = useState<number>(); // turn after which to fork
  const [editing, setEditing] = useState<Point>();
  const model = t.model || (agent.model ?? "");
  const free = !busy && agent.status === "ACTIVE";
  const turns = useMemo(() => ({ id, model, free, done: sent, edit: setEditing, fork: setForking }), [id, model, free, sent]);
  return (
    <div className="agent-body">
      <div className="agent-talk">
        {!follower.whole && t.entries.length === 0 ? (
          <Loading />
        ) : (
          <TurnContext value={turns}>
            <Conversation follower={follower} finding={finding} />
          </TurnContext>
        )}
        <FollowUp id={id} model={model} busy={busy} archived={agent.status === "ARCHIVED"} queue={t.queue} outgoing={outgoing} asked={t.asked()} />
      </div>
      {t.todos.length > 0 && (
        <aside aria-label={words.agent.todo}>
          <h2>{words.agent.todo}</h2>
          <TodoList todos={t.todos} />
        </aside>
      )}
      {forking !== undefined && <Fork id={id} turn={forking} close={() => setForking(undefined)} />}
      {editing && <Edit id={id} point={editing} close={() => setEditing(undefined)} done={sent} />}
    </div>
  );
}
