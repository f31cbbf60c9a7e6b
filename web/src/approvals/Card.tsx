import { useRef, useState } from "react";
import type { Approval, Decision } from "../api/types";
import { asFailure, useClient } from "../api/use";
import { Icon } from "../parts/Icon";
import { Markdown } from "../parts/Markdown";
import { clip, shown, shownLine, shownName, shownProse } from "../parts/clip";
import { since, useNow } from "../parts/time";
import { goTo } from "../parts/provider";
import { toast } from "../parts/toast";
import { link } from "../route";
import { words } from "../words";
import { useAnswer } from "./answer";
import { headOf, kindOf } from "./kind";
import { QuestionForm } from "./QuestionForm";
import { useWhole } from "./whole";

const w = words.approval;
const most = 20_000; // maximum length of a text in collapsed form, in characters

/**
 * An approval request with its answers. The answers are enabled only after the whole request has
 * been shown: a long request must be expanded first. bare is set on the agent's own page.
 */
export function ApprovalCard({ approval: a, bare = false, name }: { approval: Approval; bare?: boolean; name?: string }) {
  const now = useNow();
  const kind = kindOf(a);
  const request = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState(false);
  const long = a.subject.length > most || (a.change?.length ?? 0) > most;
  const fits = useWhole(request, a.id, open);
  const whole = open || (fits && !long);
  const textOf = (text: string) => shown(open ? text : clip(text, most));
  if (a.hidden) return <HiddenCard approval={a} {...(name ? { name } : {})} />;
  return (
    <section className="approval" aria-label={`${headOf(a)}: ${shownLine(a.subject, 80)}`}>
      <div className="row">
        <Icon name="approvals" />
        <strong>{headOf(a)}</strong>
        <span className="grow" />
        <span className="faint small when">{w.asked(since(a.askedAt, now))}</span>
      </div>
      {!bare && (
        <a className="cut muted small" dir="auto" {...link({ page: "agent", id: a.agentId, tab: "conversation" })}>
          {name === undefined ? w.open : shownLine(name)}
        </a>
      )}
      {a.subagent && (
        <p className="small muted" dir="auto">
          {w.by}: {a.subagent}
        </p>
      )}
      {kind === "question" && (a.questions?.length ?? 0) > 1 && (
        <p className="small muted" dir="auto">
          {shownLine(a.subject)}
        </p>
      )}
      {kind !== "question" && (
        <div className="request" ref={request} data-open={open ? "" : undefined}>
          {kind === "call" && (
            <pre className="command" data-request="" tabIndex={0}>
              <code>{textOf(a.subject)}</code>
            </pre>
          )}
          {a.folder && (
            <p className="small muted" data-request="">
              {w.folder} <code>{shownName(a.folder)}</code>
            </p>
          )}
          {kind === "plan" && (
            <div className="plan" data-request="" role="group" aria-label={words.tools.plan} tabIndex={0}>
              <h2 dir="auto">{shownLine(a.subject)}</h2>
              <Markdown text={a.change ?? ""} />
            </div>
          )}
          {kind === "call" && a.change && (
            <>
              <p className="small muted">{w.change(a.tool)}</p>
              <pre className="command" data-request="" tabIndex={0} aria-label={w.change(a.tool)}>
                <code>{textOf(a.change)}</code>
              </pre>
            </>
          )}
        </div>
      )}
      {a.reason && (
        <p className="small" dir="auto">
          {shownProse(clip(a.reason, most))}
        </p>
      )}
      {kind === "call" && <p className="small muted">{a.why}</p>}
      {a.entries.length > 0 && (
        <div className="small muted">
          {w.allows(a.entries.length)}
          <ul className="rules">
            {a.entries.map((e) => (
              <li key={e}>
                <code>{shownName(e)}</code>
              </li>
            ))}
          </ul>
        </div>
      )}
      {a.until && <p className="small muted">{w.until(new Date(a.until).toLocaleString())}</p>}
      {kind === "question" ? (
        <QuestionForm approval={a} />
      ) : a.tool === "McpAuth" ? (
        <SignIn approval={a} />
      ) : whole ? (
        <Verdict approval={a} />
      ) : (
        <div className="approval-acts">
          <button type="button" className="button small" onClick={() => setOpen(true)}>
            {w.showWhole[kind]}
          </button>
        </div>
      )}
    </section>
  );
}

/**
 * A request in a team that hides summaries in lists. The person reads and answers it on the agent's
 * page.
 */
function HiddenCard({ approval: a, name }: { approval: Approval; name?: string }) {
  const now = useNow();
  return (
    <section className="approval" aria-label={`${headOf(a)}: ${name ?? a.id}`}>
      <div className="row">
        <Icon name="approvals" />
        <strong>{headOf(a)}</strong>
        <span className="grow" />
        <span className="faint small when">{w.asked(since(a.askedAt, now))}</span>
      </div>
      <p className="small muted">{w.hidden}</p>
      <div className="approval-acts">
        <a className="button first small cut" dir="auto" {...link({ page: "agent", id: a.agentId, tab: "conversation" })}>
          {name === undefined ? w.open : shownLine(name)}
        </a>
      </div>
    </section>
  );
}

/**
 * Lets the user sign in to the MCP server that the agent needs, which resolves the request, or deny
 * the request.
 */
function SignIn({ approval: a }: { approval: Approval }) {
  const client = useClient();
  const { answer, busy } = useAnswer();
  const go = () => client.beginAgentMcpSignIn(a.agentId, a.subject, a.id).then((r) => goTo(r.authorizationUrl)).catch((e: unknown) => toast(asFailure(e).message, true));
  return (
    <div className="approval-acts">
      <button type="button" className="button first small" disabled={busy} onClick={() => void go()}>
        {words.mcp.signInTo(shownLine(a.subject))}
      </button>
      <button type="button" className="button small danger" disabled={busy} onClick={() => void answer(a, "deny", { message: "" })}>
        {w.deny}
      </button>
    </div>
  );
}

/** Allow or deny, with an optional message. */
function Verdict({ approval: a }: { approval: Approval }) {
  const { answer, busy } = useAnswer();
  const [done, setDone] = useState(false);
  const [why, setWhy] = useState("");
  const plan = kindOf(a) === "plan";
  const give = async (decision: Decision) => setDone(await answer(a, decision, { message: why }));
  return (
    <div className="approval-acts">
      <button type="button" className="button first small" disabled={busy || done} onClick={() => void give("allow_once")}>
        {done ? w.answered : plan ? w.carryOut : w.once}
      </button>
      {a.entries.length > 0 && (
        <>
          <button type="button" className="button small" disabled={busy || done} onClick={() => void give("allow_agent")}>
            {w.agent}
          </button>
          <button type="button" className="button small" disabled={busy || done} onClick={() => void give("allow_always")}>
            {w.always}
          </button>
        </>
      )}
      <button type="button" className={plan ? "button small" : "button small danger"} disabled={busy || done} onClick={() => void give("deny")}>
        {plan ? w.otherPlan : w.deny}
      </button>
      <input className="input deny-why" aria-label={plan ? w.planWhy : w.denyWhy} placeholder={plan ? w.planWhy : w.denyWhy} value={why} onChange={(e) => setWhy(e.target.value)} />
    </div>
  );
}
