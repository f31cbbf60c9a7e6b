import type { Virtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, type RefObject } from "react";
import type { Entry } from "../journal/entry";
import { hasFailed } from "./find";
import type { Target } from "./finding";
import { rangesIn } from "./highlight";

const attempts = 60; // number of frames for a row to reach its position: rows are measured as they appear
const margin = 16; // space above the row in pixels

type Jump = {
  box: RefObject<HTMLDivElement | null>;
  virtual: Virtualizer<HTMLDivElement, Element>;
  entries: readonly Entry[];
  target: Target | undefined;
  /** The searched text; the jump goes to its first occurrence in the row. */
  text: string;
  /** Called before the conversation scrolls away from its end. */
  leave: () => void;
  unfold: (key: string) => void;
};

/** useJump scrolls to the target whenever there is a new one. */
export function useJump(jump: Jump): void {
  const latest = useRef(jump);
  latest.current = jump;
  const { target } = jump;
  useEffect(() => {
    const { entries, virtual, leave, unfold, text } = latest.current;
    const index = entries.findIndex((e) => e.key === target?.key);
    const entry = entries[index];
    if (!target || !entry) return;
    leave();
    if (text || hasFailed(entry)) unfold(target.key);
    let left = attempts;
    let frame = 0;
    let before = NaN;
    let same = 0;
    const look = () => {
      const el = latest.current.box.current;
      const row = el?.querySelector<HTMLElement>(`[data-index="${index}"]`);
      if (!el || --left < 0) return;
      const top = row ? row.getBoundingClientRect().top - el.getBoundingClientRect().top : NaN;
      same = Math.abs(top - before) < 1 ? same + 1 : 0;
      before = top;
      if (!row) virtual.scrollToIndex(index, { align: "start" });
      if (row && Math.abs(top - margin) > 2 && same === 0) el.scrollTop += top - margin;
      if (!row || same < 3) frame = requestAnimationFrame(look);
      else settle(el, row, text, target.focus);
    };
    virtual.scrollToIndex(index, { align: "start" });
    frame = requestAnimationFrame(look);
    return () => cancelAnimationFrame(frame);
  }, [target]);
}

/** Scrolls the match into view, also within the row's own scrolling boxes. */
function settle(box: HTMLElement, row: HTMLElement, text: string, focus: boolean): void {
  if (focus) row.focus({ preventScroll: true });
  const range = rangesIn(row, text)[0];
  if (!range) return;
  const inner = range.startContainer.parentElement?.closest("pre, .found, .diff, .plan, .acts");
  if (inner && row.contains(inner)) inner.scrollTop += range.getBoundingClientRect().top - inner.getBoundingClientRect().top - inner.clientHeight / 3;
  const at = range.getBoundingClientRect();
  const seen = box.getBoundingClientRect();
  if (at.top < seen.top || at.bottom > seen.bottom) box.scrollTop += at.top - seen.top - seen.height / 3;
}
