import { useLayoutEffect } from "react";

/** Whether keys are for text that is being written. */
export function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) && target.getAttribute("type") !== "checkbox";
}

const apple = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform);

/** The name of a shortcut on this machine: mod+e is ⌘E or Ctrl E. */
export function keyName(key: string): string {
  return key.replace("mod+", apple ? "⌘" : "Ctrl ").replace(/[a-z]$/, (c) => c.toUpperCase());
}

const kept = "aloft.keys";

/** Whether single keys do something, too: who dictates, say, turns them off. */
export function singleKeys(now?: boolean): boolean {
  if (now !== undefined) localStorage.setItem(kept, now ? "on" : "off");
  return localStorage.getItem(kept) !== "off";
}

/** Does something on a shortcut: mod+e, or one key while nothing is written. Enter is the focused element's, where there is one. */
export function useKey(key: string, act: () => void, enabled = true): void {
  // Before it is painted: who sees the page is heard.
  useLayoutEffect(() => {
    if (!enabled) return;
    const listen = (e: KeyboardEvent) => {
      const mod = apple ? e.metaKey : e.ctrlKey;
      const other = apple ? e.ctrlKey : e.metaKey;
      const hit = key.startsWith("mod+")
        ? mod && !other && !e.altKey && !e.shiftKey && e.key.toLowerCase() === key.slice(4)
        : !e.metaKey && !e.ctrlKey && !e.altKey && e.key === key && singleKeys() && !typing(e.target) && (key !== "Enter" || e.target === document.body) && !document.querySelector("[aria-modal]");
      if (!hit || e.defaultPrevented) return;
      e.preventDefault();
      act();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  });
}
