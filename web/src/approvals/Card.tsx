import { useState } from "react";
import type { Approval, Decision } from "../api/types";
import { asFailure, useClient } from "../api/use";
import { Icon } from "../parts/Icon";
import { Markdown } from "../parts/Markdown";
import { clip, shown, shownLine } from "../parts/clip";
import { since, useNow } from "../parts/time";
import { goTo } from "../parts/provider";
import { toast } from "../parts/toast";
import { link } from "../route";
import { words } from "../words";
import { useAnswer } from "./answer";
import { headOf, kindOf } from "./kind";
import { QuestionForm } from "./QuestionForm";

const w = words.approval;
const most = 20_000; // characters of a text

/** What an agent asks, and its answers. bare is within the agent's own page. */
export function ApprovalCard({ approval: a, bare = false, name }: { approval: Approval; bare?: boolean; name?: string }) {
  const now = useNow();
  const kind = kindOf(a);
  return (
    <section className="approval" aria-label={headOf(a)}>
      <div className="row">
        <Icon name="approvals" />
        <strong>{headOf(a)}</strong>
        <span className="grow" />
        <span className="faint small when">{w.asked(since(a.askedAt, now))}</span>
      </div>
      {!bare && (
        <a className="cut muted small" dir="auto" {...link({ page: "agent", id: a.agentId, tab: "conversation" })}>
          {name ?? w.open}
        </a>
      )}
      {a.subagent && (
        <p className="small muted" dir="auto">
          {w.by}: {a.subagent}
        </p>
      )}
      {kind === "call" && !(bare && a.tool === "Shell") && (
        <pre className="command" tabIndex={0}>
          <code>{shown(clip(a.subject, most))}</code>
        </pre>
      )}
      {kind === "question" && (a.questions?.length ?? 0) > 1 && (
        <p className="small muted" dir="auto">
          {shownLine(a.subject)}
        </p>
      )}
      {kind === "plan" && !bare && (
        <div className="plan" role="group" aria-label={words.tools.plan} tabIndex={0}>
          <h2 dir="auto">{shownLine(a.subject)}</h2>
          <Markdown text={a.change ?? ""} />
        </div>
      )}
      {a.reason && !(bare && kind === "plan") && (
        <p className="small" dir="auto">
          {clip(a.reason, most)}
        </p>
      )}
      {kind === "call" && a.change && (
        <pre className="command" tabIndex={0} aria-label={w.change}>
          <code>{shown(clip(a.change, most))}</code>
        </pre>
      )}
      {kind === "call" && <p className="small muted">{a.why}</p>}
      {a.entries.length > 0 && (
        <p className="small muted">
          {w.allows}: {a.entries.map((e) => <code key={e}>{shownLine(e)} </code>)}
        </p>
      )}
      {a.until && <p className="small muted">{w.until(new Date(a.until).toLocaleString())}</p>}
      {kind === "question" ? <QuestionForm approval={a} /> : a.tool === "McpAuth" ? <SignIn approval={a} /> : <Verdict approval={a} />}
    </section>
  );
}

/** Sign in to the MCP server that the agent needs, which answers by itself, or deny. */
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

/** Allow or deny, with words. */
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
