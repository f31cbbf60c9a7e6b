import { words } from "../words";
import { Icon } from "./Icon";
import { Signal } from "./signal";

type Toast = { id: number; text: string; bad: boolean };
const toasts = new Signal<readonly Toast[]>([]);
let next = 1;
const drop = (id: number) => toasts.set(toasts.get().filter((t) => t.id !== id));

/** Says something for a while in a corner; what went wrong stays until it is closed. */
export function toast(text: string, bad = false): void {
  const id = next++;
  toasts.set([...toasts.get().slice(-3), { id, text, bad }]);
  if (!bad) setTimeout(() => drop(id), 5_000);
}

export function Toasts() {
  return (
    <div className="toasts" role="log" aria-live="polite">
      {toasts.use().map((t) => (
        <div className="toast" key={t.id}>
          {t.bad && <Icon name="warn" />}
          <span className="grow">{t.text}</span>
          <button type="button" className="button quiet square small" aria-label={words.close} onClick={() => drop(t.id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
