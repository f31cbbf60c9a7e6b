import type { MouseEvent } from "react";
import type { Approval, Decision } from "../api/types";
import { shownLine } from "../parts/clip";
import { go, link } from "../route";
import { words } from "../words";
import { useAnswer, type Words } from "./answer";
import { kindOf, oneLine, quick } from "./kind";
import { isSeen } from "./whole";

const w = words.approval;

/**
 * Answers that need only one click. If part of the request is hidden or
 * truncated, the only action is to open it.
 */
export function Quick({ approval: a, whole, tab }: { approval: Approval; whole: boolean; tab: number }) {
  const { answer, busy } = useAnswer();
  const kind = kindOf(a);
  const one = quick(a);
  const place = { page: "agent", id: a.agentId, tab: "conversation" } as const;
  const give = (e: MouseEvent, decision: Decision, words?: Words) => {
    if (isSeen(e.currentTarget.closest(".row-asks"))) void answer(a, decision, words);
    else go(place);
  };
  if (whole && kind === "question" && one)
    return one.options.map((o) => (
      <button key={o.id} type="button" className="button small" data-request="" tabIndex={tab} disabled={busy} dir="auto" onClick={(e) => give(e, "answer", { answers: [{ questionId: one.questionId, optionIds: [o.id] }] })}>
        {shownLine(o.label)}
      </button>
    ));
  if (whole && oneLine(a) && a.tool !== "McpAuth")
    return (
      <>
        <button type="button" className="button first small" tabIndex={tab} disabled={busy} onClick={(e) => give(e, "allow_once")}>
          {w.once}
        </button>
        <button type="button" className="button small danger" tabIndex={tab} disabled={busy} onClick={(e) => give(e, "deny")}>
          {w.deny}
        </button>
      </>
    );
  return (
    <a className="button small" tabIndex={tab} {...link(place)}>
      {w.review[kind]}
    </a>
  );
}
