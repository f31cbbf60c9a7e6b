import { useEffect, useLayoutEffect, useState, type RefObject } from "react";

/** Whether a text does not fit into its element, by fractions of a pixel too: an ellipsis takes the place of a whole letter. */
function isCut(e: Element): boolean {
  const range = document.createRange();
  range.selectNodeContents(e);
  const box = e.getBoundingClientRect();
  const text = range.getBoundingClientRect();
  return e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight + 1 || text.right > box.right + 0.01;
}

/** Whether anything is cut of what stands in a request: the elements marked data-request. */
const anyCut = (within: Element): boolean => [...within.querySelectorAll("[data-request], [data-request] :is(pre, .table)")].some(isCut);

/** Whether a request can be read to its last character on the screen now. What is not may not be allowed. */
export function isSeen(within: Element | null | undefined): boolean {
  if (!within || anyCut(within)) return false;
  const box = within.getBoundingClientRect();
  const around = within.closest(".scroll")?.getBoundingClientRect();
  const top = Math.max(0, around?.top ?? 0);
  const bottom = Math.min(innerHeight, around?.bottom ?? innerHeight);
  return box.height > 0 && box.top >= top - 1 && box.bottom <= bottom + 1;
}

/**
 * useWhole reports whether a request is shown whole in an element. It measures with
 * the answers in place, again with every change of on and of the element's width.
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
  return measured?.key !== key || measured.whole; // until it is measured, before anything is painted
}
