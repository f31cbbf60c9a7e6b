import { useEffect, useLayoutEffect, useState, type RefObject } from "react";

/**
 * Whether an element's text is truncated. A fraction of a pixel counts, because an ellipsis
 * replaces a whole letter.
 */
function isCut(e: Element): boolean {
  const range = document.createRange();
  range.selectNodeContents(e);
  const box = e.getBoundingClientRect();
  const text = range.getBoundingClientRect();
  return e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight + 1 || text.right > box.right + 0.01;
}

/** Whether any text of a request is truncated. Its elements are marked with data-request. */
const anyCut = (within: Element): boolean => [...within.querySelectorAll("[data-request], [data-request] :is(pre, .table)")].some(isCut);

/** Whether all of a request's text is visible on the screen. Otherwise it must not be approved. */
export function isSeen(within: Element | null | undefined): boolean {
  if (!within || anyCut(within)) return false;
  const box = within.getBoundingClientRect();
  const around = within.closest(".scroll")?.getBoundingClientRect();
  const top = Math.max(0, around?.top ?? 0);
  const bottom = Math.min(innerHeight, around?.bottom ?? innerHeight);
  return box.height > 0 && box.top >= top - 1 && box.bottom <= bottom + 1;
}

/**
 * Reports whether an element shows a whole request. It measures after the answers are rendered, and
 * again when a value in on or the element's width changes.
 */
export function useWhole(box: RefObject<HTMLElement | null>, ...on: readonly unknown[]): boolean {
  const [width, setWidth] = useState(0);
  const key = JSON.stringify([width, ...on]);
  const [measured, setMeasured] = useState<{ key: string; whole: boolean }>();
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry?.contentRect.width ?? 0)));
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, [box]);
  useLayoutEffect(() => {
    if (box.current && measured?.key !== key) setMeasured({ key, whole: !anyCut(box.current) });
  }, [box, key, measured]);
  return measured?.key !== key || measured.whole; // assume true until it is measured, which happens before painting
}
