import type { Approval } from "../api/types";
import { shownLine } from "../parts/clip";
import { link } from "../route";
import { words } from "../words";
import { useAnswer } from "./answer";
import { kindOf, quick } from "./kind";

const w = words.approval;

/** The answers that need no more thought than a click. */
export function Quick({ approval: a, tab }: { approval: Approval; tab: number }) {
  const { answer, busy } = useAnswer();
  const kind = kindOf(a);
  const one = quick(a);
  if (kind === "question")
    return (
      <>
        {one?.options.map((o, i) => (
          <button
            key={o.id} type="button" className={`button small cut wide-only ${i === 0 ? "first" : ""}`} tabIndex={tab} disabled={busy} title={shownLine(o.label)} dir="auto"
            onClick={() => void answer(a, "answer", { answers: [{ questionId: one.questionId, optionIds: [o.id] }] })}
          >
            {shownLine(o.label)}
          </button>
        ))}
        <a className={`button first small ${one ? "narrow-only" : ""}`} tabIndex={tab} {...link({ page: "agent", id: a.agentId, tab: "conversation" })}>
          {w.answer}
        </a>
      </>
    );
  return (
    <>
      <button type="button" className="button first small" tabIndex={tab} disabled={busy} onClick={() => void answer(a, "allow_once")}>
        {kind === "plan" ? w.carryOut : w.once}
      </button>
      {kind === "plan" ? (
        <a className="button small" tabIndex={tab} {...link({ page: "agent", id: a.agentId, tab: "conversation" })}>
          {w.readPlan}
        </a>
      ) : (
        <button type="button" className="button small danger" tabIndex={tab} disabled={busy} onClick={() => void answer(a, "deny")}>
          {w.deny}
        </button>
      )}
    </>
  );
}
