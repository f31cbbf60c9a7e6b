import { useState } from "react";
import type { Approval, Decision } from "../api/types";
import { useAgents } from "../agents/store";
import { asFailure, useClient } from "../api/use";
import { Icon } from "../parts/Icon";
import { since, useNow } from "../parts/time";
import { toast } from "../parts/toast";
import { link } from "../route";
import { words } from "../words";

const w = words.approval;

/** A question of an agent, and its answers. bare is within the agent's own page. */
export function ApprovalCard({ approval: a, bare = false, name, answered }: { approval: Approval; bare?: boolean; name?: string; answered?: () => void }) {
  const client = useClient();
  const { refresh } = useAgents(client);
  const now = useNow();
  const [busy, setBusy] = useState(false);
  const [done, setDone] = useState(false);
  const [why, setWhy] = useState("");
  const answer = async (decision: Decision) => {
    setBusy(true);
    try {
      await client.answer(a, decision, decision === "deny" ? why.trim() : undefined);
      setDone(true);
    } catch (e) {
      toast(asFailure(e).message, true);
    }
    setBusy(false);
    refresh();
    answered?.();
  };
  return (
    <section className="approval" aria-label={`${w.asks} ${a.tool}`}>
      <div className="row">
        <Icon name="approvals" />
        <strong>
          {w.asks} {a.tool}
        </strong>
        <span className="grow" />
        <span className="faint small">{w.asked(since(a.askedAt, now))}</span>
      </div>
      {!bare && (
        <a className="cut muted small" dir="auto" {...link({ page: "agent", id: a.agentId, tab: "conversation" })}>
          {name ?? w.open}
        </a>
      )}
      {!(bare && a.tool === "Shell") && (
        <pre className="command" tabIndex={0}>
          <code>{a.subject}</code>
        </pre>
      )}
      {a.reason && (
        <p className="small" dir="auto">
          {a.reason}
        </p>
      )}
      <p className="small muted">{a.why}</p>
      {a.entries.length > 0 && (
        <p className="small muted">
          {w.allows}: {a.entries.map((e) => <code key={e}>{e} </code>)}
        </p>
      )}
      <div className="approval-acts">
        <button type="button" className="button first small" disabled={busy || done} onClick={() => void answer("allow_once")}>
          {done ? w.answered : w.once}
        </button>
        {a.entries.length > 0 && (
          <>
            <button type="button" className="button small" disabled={busy || done} onClick={() => void answer("allow_agent")}>
              {w.agent}
            </button>
            <button type="button" className="button small" disabled={busy || done} onClick={() => void answer("allow_always")}>
              {w.always}
            </button>
          </>
        )}
        <button type="button" className="button small danger" disabled={busy || done} onClick={() => void answer("deny")}>
          {w.deny}
        </button>
        <input className="input deny-why" aria-label={w.denyWhy} placeholder={w.denyWhy} value={why} onChange={(e) => setWhy(e.target.value)} />
      </div>
    </section>
  );
}
