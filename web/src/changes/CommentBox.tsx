import { useState } from "react";
import type { Comment } from "./comments";
import { Icon } from "../parts/Icon";
import { words } from "../words";

const w = words.changes;

type Props = { said: Comment | undefined; writing: boolean; put: (text: string) => void; drop: () => void; cancel: () => void };

/** A comment on a line, or the form for writing a comment. */
export function CommentBox({ said, writing, put, drop, cancel }: Props) {
  const [text, setText] = useState(said?.text ?? "");
  if (said && !writing) {
    return (
      <div className="comment">
        <Icon name="comment" />
        <p className="grow" dir="auto">
          {said.text}
        </p>
        <button type="button" className="button quiet small" onClick={drop}>
          {w.commentDrop}
        </button>
      </div>
    );
  }
  return (
    <form
      className="comment"
      onSubmit={(e) => {
        e.preventDefault();
        if (text.trim()) put(text.trim());
      }}
      onKeyDown={(e) => {
        if (e.key === "Escape") cancel();
        if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && text.trim()) put(text.trim());
      }}
    >
      <textarea className="input grow" rows={2} autoFocus aria-label={w.commentHint} placeholder={w.commentHint} value={text} dir="auto" onChange={(e) => setText(e.target.value)} />
      <button type="submit" className="button first small" disabled={!text.trim()}>
        {w.commentAdd}
      </button>
      <button type="button" className="button quiet small" onClick={cancel}>
        {words.spawn.cancel}
      </button>
    </form>
  );
}
