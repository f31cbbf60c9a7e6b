import { createPortal } from "react-dom";
import { asFailure } from "../api/use";
import { words } from "../words";
import { Icon } from "./Icon";
import { Signal } from "./signal";

type Toast = { id: number; text: string; bad: boolean; more: More | undefined };
type More = { name: string; act: () => void }; // what can be done about it
const toasts = new Signal<readonly Toast[]>([]);
let next = 1;
const drop = (id: number) => toasts.set(toasts.get().filter((t) => t.id !== id));

/** Says something for a while in a corner; what went wrong stays until it is closed. */
export function toast(text: string, bad = false, more?: More): void {
  const id = next++;
  toasts.set([...toasts.get().slice(-3), { id, text, bad, more }]);
  if (!bad) setTimeout(() => drop(id), more ? 10_000 : 5_000);
}

/** Says why something did not succeed. */
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
    document.body, // said over a dialog, too, while the page behind it is inert
  );
}
