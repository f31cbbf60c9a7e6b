import { useLayoutEffect } from "react";

/** Whether a key press goes to a text field. */
export function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) && target.getAttribute("type") !== "checkbox";
}

const apple = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform);

/** The name of a shortcut on this computer: mod+e is ⌘E or Ctrl E. */
export function keyName(key: string): string {
  return key.replace("mod+", apple ? "⌘" : "Ctrl ").replace(/[a-z]$/, (c) => c.toUpperCase());
}

const kept = "aloft.keys";

/** Whether single-key shortcuts are enabled; people who use dictation turn them off. */
export function singleKeys(now?: boolean): boolean {
  if (now !== undefined) localStorage.setItem(kept, now ? "on" : "off");
  return localStorage.getItem(kept) !== "off";
}

const chord = 1_500; // milliseconds in which the second key of a shortcut must follow
let pressed = { key: "", at: 0 };
let previous = pressed; // the key before the one that is being handled
if (typeof window !== "undefined") {
  // Registered before the listeners of shortcuts, and so called before them.
  addEventListener("keydown", (e) => {
    previous = pressed;
    pressed = { key: typing(e.target) ? "" : e.key, at: Date.now() };
  });
}

/**
 * Runs an action on a shortcut: mod+e, a single key outside text fields, or two
 * such keys one after the other, as in "g a". Enter belongs to the focused element,
 * if there is one.
 */
export function useKey(key: string, act: () => void, enabled = true): void {
  // A layout effect, so that the shortcut works as soon as the page is visible.
  useLayoutEffect(() => {
    if (!enabled) return;
    const [first, second] = key.split(" ");
    const listen = (e: KeyboardEvent) => {
      const after = second === undefined || (previous.key === first && Date.now() - previous.at < chord);
      const mod = apple ? e.metaKey : e.ctrlKey;
      const other = apple ? e.ctrlKey : e.metaKey;
      const hit = key.startsWith("mod+")
        ? mod && !other && !e.altKey && !e.shiftKey && e.key.toLowerCase() === key.slice(4)
        : !e.metaKey && !e.ctrlKey && !e.altKey && e.key === (second ?? key) && after && singleKeys() && !typing(e.target) && (key !== "Enter" || e.target === document.body) && !document.querySelector("[aria-modal]");
      if (!hit || e.defaultPrevented) return;
      e.preventDefault();
      act();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  });
}
