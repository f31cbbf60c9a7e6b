import type { Approval } from "../api/types";
import { shownLine } from "../parts/clip";
import { words } from "../words";

/** The kind of a request: approval of a tool call, the agent's questions, or its plan. */
export type Kind = "call" | "question" | "plan";

export const kindOf = (a: Approval): Kind => (a.tool === "AskQuestion" ? "question" : a.tool === "CreatePlan" ? "plan" : "call");

/** A short title for a request. */
export const headOf = (a: Approval): string => words.approval.head[kindOf(a)](shownLine(a.tool, 60));

/** Whether a call can be described in one line. */
export const oneLine = (a: Approval): boolean => kindOf(a) === "call" && !a.hidden && !a.change && !a.folder && !/[\r\n]/.test(a.subject.trim()) && a.subject.length <= 300;

/** The only question of a request, if its options fit in a row or a notification. */
export function quick(a: Approval): { questionId: string; options: readonly { id: string; label: string }[] } | undefined {
  const [q, ...more] = a.questions ?? [];
  if (!q || more.length > 0 || q.allowMultiple || q.options.length === 0 || q.options.length > 3) return undefined;
  return { questionId: q.id, options: q.options };
}
