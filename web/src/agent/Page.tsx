import { lazy, Suspense, useCallback, useEffect, useMemo, useState } from "react";
import { isOpen, repoName } from "../agents/status";
import { asFailure, useClient, useLoad } from "../api/use";
import { useJournal } from "../journal/follow";
import { few } from "../parts/few";
import { Icon, type IconName } from "../parts/Icon";
import { cost } from "../parts/money";
import { Failed, Loading } from "../parts/State";
import { StatusBadge } from "../parts/Status";
import { span, useNow } from "../parts/time";
import { toast } from "../parts/toast";
import { link, tabs, type Tab } from "../route";
import { TodoList } from "../tools/todos";
import { words } from "../words";
import { Conversation } from "./Conversation";
import { FollowUp } from "./FollowUp";
import { Fork } from "./Fork";
import { useOutgoing } from "./queue";
import { Edit, TurnContext, type Point } from "./turns";

const Changes = lazy(() => import("../changes/Changes"));
const Files = lazy(() => import("../machine/Files"));
const Machine = lazy(() => import("../machine/Machine"));
const w = words.agent;
const soon = 3 * 86_400_000; // milliseconds before an agent is deleted
const look = 2_500; // milliseconds between looks at the agent's state

/** One agent. */
export default function AgentPage({ id, tab }: { id: string; tab: Tab }) {
  const client = useClient();
  const { data: agent, failure, loading, reload } = useLoad(() => client.agent(id), [id], look);
  const follower = useJournal(client, id);
  const t = follower.transcript;
  const now = useNow();
  const [forking, setForking] = useState<number>(); // after the turn; 0 is now
  const [editing, setEditing] = useState<Point>();
  const busy = agent ? isOpen(agent) || t.working : true;
  useEffect(reload, [t.working, reload]); // what the journal says is known at once
  const sent = useCallback(() => reload(), [reload]);
  const outgoing = useOutgoing(client, id, sent);
  const free = !busy && agent?.status === "ACTIVE";
  const turns = useMemo(() => ({ id, free, done: sent, edit: setEditing, fork: setForking }), [id, free, sent]);

  if (failure && !agent) return <Failed failure={failure} retry={reload} top />;
  if (loading || !agent) return <Loading />;
  const act = (what: Promise<unknown>) => {
    what.then(reload, (e: unknown) => toast(asFailure(e).message, true));
  };
  const archived = agent.status === "ARCHIVED";
  const repo = agent.repos?.[0];
  const total = t.tokens.input + t.tokens.output + t.tokens.cacheRead + t.tokens.cacheWrite;
  const ms = t.started ? (t.ended ? Date.parse(t.ended) : now) - Date.parse(t.started) : 0;
  return (
    <div className="agent">
      <header className="top">
        <a className="button quiet square small" {...link({ page: "agents" })} aria-label={w.back}>
          <Icon name="left" />
        </a>
        <div className="agent-title">
          <h1 className="cut" dir="auto" title={agent.name}>
            {agent.name ?? words.agents.untitled}
          </h1>
          <div className="agent-facts">
            {repo && <span className="cut">{repoName(repo.url)}</span>}
            {t.branch && (
              <span className="row mono cut">
                <Icon name="branch" />
                <span className="cut">{t.branch}</span>
              </span>
            )}
            {t.model && <span className="cut">{t.model}</span>}
            {total > 0 && <span title={w.tokensTitle(t.tokens.input, t.tokens.output, t.tokens.cacheRead, t.tokens.cacheWrite)}>{w.tokens(few(total))}</span>}
            {total > 0 && <span>{cost(t.tokens)}</span>}
            {t.turns > 0 && <span>{w.turns(t.turns)}</span>}
            {ms > 0 && <span>{span(ms)}</span>}
            {agent.deletedAt && Date.parse(agent.deletedAt) - now < soon && <span className="badge" data-tone="amber">{w.deleted(new Date(agent.deletedAt).toLocaleDateString())}</span>}
            {agent.forkedFrom && <a {...link({ page: "agent", id: agent.forkedFrom, tab: "conversation" })}>{w.forked}</a>}
          </div>
        </div>
        <StatusBadge agent={agent} />
        <div className="row agent-acts">
          {isOpen(agent) && <Act icon="stop" name={w.stop} act={() => act(client.cancel(id, agent.latestRunId ?? ""))} />}
          {agent.paused ? (
            <Act icon="play" name={w.resume} act={() => act(client.resume(id))} />
          ) : (
            isOpen(agent) && <Act icon="pause" name={w.pause} act={() => act(client.pause(id))} />
          )}
          <Act icon="fork" name={w.fork} act={() => setForking(0)} />
          {archived ? <Act icon="archive" name={w.unarchive} act={() => act(client.unarchive(id))} /> : !isOpen(agent) && <Act icon="archive" name={w.archive} act={() => act(client.archive(id))} />}
        </div>
      </header>
      <nav className="tabs" aria-label={w.tabsLabel}>
        {tabs.map((name) => (
          <a key={name} {...link({ page: "agent", id, tab: name })} aria-current={tab === name ? "page" : undefined}>
            {w.tabs[name]}
          </a>
        ))}
      </nav>
      {tab === "conversation" && (
        <div className="agent-body">
          <div className="agent-talk">
            {!follower.whole && t.entries.length === 0 ? <Loading /> : <TurnContext value={turns}><Conversation entries={t.entries} revision={follower.revision()} more={follower.more} older={follower.older} /></TurnContext>}
            <FollowUp id={id} busy={busy} archived={archived} queue={t.queue} outgoing={outgoing} asked={t.asked()} />
          </div>
          {t.todos.length > 0 && (
            <aside aria-label={w.todo}>
              <h2>{w.todo}</h2>
              <TodoList todos={t.todos} />
            </aside>
          )}
        </div>
      )}
      <Suspense fallback={<Loading />}>
        {tab === "changes" && <Changes agent={agent} revision={t.turns} entries={t.entries} branch={t.branch} more={follower.more} older={follower.older} />}
        {tab === "files" && <Files agent={agent} revision={t.turns} />}
        {tab === "machine" && <Machine agent={agent} />}
      </Suspense>
      {forking !== undefined && <Fork id={id} turn={forking} close={() => setForking(undefined)} />}
      {editing && <Edit id={id} point={editing} close={() => setEditing(undefined)} done={sent} />}
    </div>
  );
}

function Act({ icon, name, act }: { icon: IconName; name: string; act: () => void }) {
  return (
    <button type="button" className="button small" onClick={act}>
      <Icon name={icon} />
      <span className="act-name">{name}</span>
    </button>
  );
}
