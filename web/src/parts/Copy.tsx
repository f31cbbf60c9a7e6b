import { useState } from "react";
import { words } from "../words";
import { Icon } from "./Icon";

/** Copies a text. A function is called when the button is pressed. */
export function Copy({ text, label = words.copy }: { text: string | (() => string); label?: string }) {
  const [done, setDone] = useState(false);
  return (
    <button
      type="button" className="button quiet square small copy" aria-label={done ? words.copied : label} title={label}
      onClick={() => {
        navigator.clipboard?.writeText(typeof text === "string" ? text : text()).then(
          () => {
            setDone(true);
            setTimeout(() => setDone(false), 1500);
          },
          () => undefined, // the browser has refused, and reports that itself
        );
      }}
    >
      <Icon name={done ? "check" : "copy"} />
    </button>
  );
}
