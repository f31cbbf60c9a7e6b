import { useState } from "react";
import { Icon } from "../parts/Icon";
import { words } from "../words";

/** A secret that is shown once, with a button that copies it. */
export function Once({ text, words: says, close }: { text: string; words: string; close: () => void }) {
  const [done, setDone] = useState(false);
  return (
    <div className="once" role="status">
      <span className="small">{says}</span>
      <div className="line">
        <input className="input mono" readOnly aria-label={says} value={text} onFocus={(e) => e.target.select()} />
        <button type="button" className="button" onClick={() => void navigator.clipboard.writeText(text).then(() => setDone(true))}>
          <Icon name={done ? "check" : "copy"} />
          {words.copy}
        </button>
        <button type="button" className="button quiet square" aria-label={words.close} onClick={close}>
          <Icon name="close" />
        </button>
      </div>
    </div>
  );
}
