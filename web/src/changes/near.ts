import { useEffect, useState, type RefObject } from "react";

const margin = 1_200; // pixels above and below the visible area

type Watch = { observer: IntersectionObserver; told: Map<Element, (near: boolean) => void> };
const watches = new WeakMap<Element, Watch>();

/** Returns the observer that all elements of a scrolling box share. */
function watchOf(box: Element): Watch {
  const before = watches.get(box);
  if (before) return before;
  const told: Watch["told"] = new Map();
  const observer = new IntersectionObserver((all) => all.forEach((e) => told.get(e.target)?.(e.isIntersecting)), { root: box, rootMargin: `${margin}px 0px` });
  const watch = { observer, told };
  watches.set(box, watch);
  return watch;
}

/** Reports whether an element is visible, or nearly visible, in its scrolling box. */
export function useNear(ref: RefObject<HTMLElement | null>, first: boolean): boolean {
  const [near, setNear] = useState(first);
  useEffect(() => {
    const el = ref.current;
    const box = el?.closest(".scroll");
    if (!el || !box) return;
    const { observer, told } = watchOf(box);
    told.set(el, setNear);
    observer.observe(el);
    return () => {
      observer.unobserve(el);
      told.delete(el);
    };
  }, [ref]);
  return near;
}
