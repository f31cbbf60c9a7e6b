import { createPortal } from "react-dom";
import { asFailure } from "../api/use";
import { words } from "../words";
import { Icon } from "./Icon";
import { Signal } from "../signal";

type Toast = { id: number; text: string; bad: boolean; more: More | undefined };
type More = { name: string; act: () => void }; // an action that is offered
const toasts = new Signal<readonly Toast[]>([]);
let next = 1;
const drop = (id: number) => toasts.set(toasts.get().filter((t) => t.id !== id));

/** Shows a message in a corner for a while; errors stay until they are closed. */
export function toast(text: string, bad = false, more?: More): void {
  const id = next++;
  toasts.set([...toasts.get().slice(-3), { id, text, bad, more }]);
  if (!bad) setTimeout(() => drop(id), more ? 10_000 : 5_000);
}

/** Shows why something failed. */
export const toastFailure = (e: unknown): void => toast(asFailure(e).message, true);

export function Toasts() {
  return createPortal(
    <div className="toasts" role="log" aria-live="polite">
      {toasts.use().map((t) => (
        <div className="toast" key={t.id}>
          {t.bad && <Icon name="warn" />}
          <span className="grow">{t.text}</span>
          {t.more && (
            <button
              type="button" className="button small"
              onClick={() => {
                t.more?.act();
                drop(t.id);
              }}
            >
              {t.more.name}
            </button>
          )}
          <button type="button" className="button quiet square small" aria-label={words.close} onClick={() => drop(t.id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>,
    document.body, // shown above dialogs, too, while the page behind is inert
  );
}
