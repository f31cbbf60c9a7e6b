import { useState } from "react";
import type { Approval, Decision } from "../api/types";
import { Icon } from "../parts/Icon";
import { since, useNow } from "../parts/time";
import { link } from "../route";
import { words } from "../words";
import { useAnswer } from "./answer";

const w = words.approval;

/** A question of an agent, and its answers. bare is within the agent's own page. */
export function ApprovalCard({ approval: a, bare = false, name }: { approval: Approval; bare?: boolean; name?: string }) {
  const give = useAnswer();
  const now = useNow();
  const { busy } = give;
  const [done, setDone] = useState(false);
  const [why, setWhy] = useState("");
  const answer = async (decision: Decision) => {
    if (await give.answer(a, decision, why)) setDone(true);
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
