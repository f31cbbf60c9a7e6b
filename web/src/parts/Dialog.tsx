import { useId, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { createPortal } from "react-dom";
import { words } from "../words";
import { Icon } from "./Icon";
import { cover } from "./modal";

const reach = 'a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), textarea:not(:disabled), [tabindex="0"]';

/**
 * A modal dialog. The rest of the page is inert. When the dialog closes, the focus returns to the
 * previously focused element.
 */
export function Dialog({ title, close, children, className = "" }: { title: string; close: () => void; children: ReactNode; className?: string }) {
  const box = useRef<HTMLDivElement>(null);
  const id = useId();
  const veil = useRef<HTMLDivElement>(null);
  const [before] = useState(() => document.activeElement); // before anything in the dialog takes the focus
  useLayoutEffect(() => {
    const uncover = veil.current ? cover(veil.current) : undefined;
    if (!box.current?.contains(document.activeElement)) box.current?.querySelector<HTMLElement>(`.body :is(${reach})`)?.focus();
    return () => {
      uncover?.();
      if (before instanceof HTMLElement) before.focus();
    };
  }, [before]);
  return createPortal(
    <div
      ref={veil} className="veil"
      onMouseDown={(e) => e.target === e.currentTarget && close()}
      onKeyDown={(e) => {
        if (e.key === "Escape") {
          e.stopPropagation();
          close();
        }
        if (e.key !== "Tab" || !box.current) return;
        const all = [...box.current.querySelectorAll<HTMLElement>(reach)];
        const end = e.shiftKey ? all[0] : all.at(-1);
        if (document.activeElement === end) {
          e.preventDefault();
          (e.shiftKey ? all.at(-1) : all[0])?.focus();
        }
      }}
    >
      <div ref={box} className={`dialog ${className}`} role="dialog" aria-modal="true" aria-labelledby={id}>
        <header>
          <h2 id={id}>{title}</h2>
          <button type="button" className="button quiet square small" aria-label={words.close} onClick={close}>
            <Icon name="close" />
          </button>
        </header>
        {children}
      </div>
    </div>,
    document.body,
  );
}
