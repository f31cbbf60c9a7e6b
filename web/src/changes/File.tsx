import { memo, useState, type ReactNode } from "react";
import { clipLine, shown } from "../parts/clip";
import { Code } from "../parts/Code";
import { languageOf } from "../parts/colour";
import { Icon } from "../parts/Icon";
import { words } from "../words";
import { placeOfComment, type Comment } from "./comments";
import { DiffLine } from "./Lines";
import { pairs, type FileDiff, type Line } from "./parse";

const w = words.changes;
const tooLong = 1_500; // lines of a file that are not shown until they are asked for

type Props = {
  file: FileDiff;
  split: boolean;
  comments: readonly Comment[];
  put: (c: Comment) => void;
  drop: (place: string) => void;
};

/** The changes of one file. */
export const FileChanges = memo(function FileChanges({ file, split, comments, put, drop }: Props) {
  const lines = file.hunks.reduce((n, h) => n + h.lines.length, 0);
  const [open, setOpen] = useState(lines <= tooLong);
  const [writing, setWriting] = useState("");
  const language = languageOf(file.path);
  const keyOf = (line: Line): string => placeOfComment({ path: file.path, line: line.new ?? line.old ?? 0, side: line.kind === "-" ? "old" : "new" });

  const number = (line: Line): ReactNode => {
    const n = line.new ?? line.old;
    if (n === undefined) return <span className="number" />;
    return (
      <button type="button" className="number" aria-label={w.comment(n)} onClick={() => setWriting(keyOf(line))}>
        {n}
      </button>
    );
  };
  const below = (line: Line | undefined): ReactNode => {
    if (!line) return null;
    const place = keyOf(line);
    const said = comments.find((c) => placeOfComment(c) === place);
    if (writing !== place && !said) return null;
    return (
      <Comments
        key={place} said={said} writing={writing === place} drop={() => drop(place)} cancel={() => setWriting("")}
        put={(text) => {
          put({ path: file.path, line: line.new ?? line.old ?? 0, side: line.kind === "-" ? "old" : "new", code: clipLine(line.text), text });
          setWriting("");
        }}
      />
    );
  };

  return (
    <section className="card file" id={`file-${file.path}`} aria-label={file.path}>
      <header>
        <Icon name="file" />
        <h2 className="mono cut grow" dir="ltr">
          {file.from ? `${shown(file.from)} → ` : ""}
          {shown(file.path)}
        </h2>
        {w.status[file.status] && <span className="badge">{w.status[file.status]}</span>}
        <Counts file={file} />
      </header>
      {file.binary ? (
        <p className="muted small diff-note">{w.binary}</p>
      ) : !open ? (
        <button type="button" className="button quiet small diff-note" onClick={() => setOpen(true)}>
          {w.tooLong(lines)}
        </button>
      ) : (
        <div className={split ? "diff split" : "diff"} role="region" aria-label={w.of(file.path)} tabIndex={0}>
          {file.hunks.map((h, i) => (
            <div key={i} className="hunk">
              <div className="hunk-head">
                <span className="number" />
                {h.header || "⋯"}
              </div>
              {split
                ? pairs(h).map((p, j) => (
                    <div key={j}>
                      <div className="pair">
                        <Half line={p.left} language={language} number={number} old />
                        <Half line={p.right} language={language} number={number} />
                      </div>
                      {p.left !== p.right && below(p.left)}
                      {below(p.right)}
                    </div>
                  ))
                : h.lines.map((line, j) => (
                    <div key={j}>
                      <DiffLine line={line} language={language} number={number(line)} />
                      {line.kind !== "\\" && below(line)}
                    </div>
                  ))}
            </div>
          ))}
        </div>
      )}
    </section>
  );
});

export function Counts({ file }: { file: FileDiff }) {
  return (
    <span className="counts small">
      <span className="plus">+{file.added}</span> <span className="minus">−{file.removed}</span>
    </span>
  );
}

function Half({ line, language, number, old = false }: { line: Line | undefined; language: string; number: (line: Line) => ReactNode; old?: boolean }) {
  if (!line) return <div className="half gap" />;
  return (
    <div className="half" data-kind={line.kind}>
      {old && line.kind === " " ? <span className="number">{line.old}</span> : number(line)}
      <code>
        <Code code={clipLine(line.text) || " "} language={language} />
      </code>
    </div>
  );
}

type CommentsProps = { said: Comment | undefined; writing: boolean; put: (text: string) => void; drop: () => void; cancel: () => void };

function Comments({ said, writing, put, drop, cancel }: CommentsProps) {
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
