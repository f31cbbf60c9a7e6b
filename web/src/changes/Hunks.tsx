import { memo, useLayoutEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { clipLine, shownName } from "../parts/clip";
import { Code } from "../parts/Code";
import { languageOf } from "../parts/colour";
import { words } from "../words";
import { placeOfComment, type Comment } from "./comments";
import { CommentBox } from "./CommentBox";
import { DiffLine } from "./Lines";
import { useNear } from "./near";
import { rowsOf, widthOf, type FileDiff, type Line, type Row } from "./parse";

const w = words.changes;
const chunk = 80; // number of rows that are rendered together
const high = 24; // height of a row in pixels, as in the style sheet

/** The comments on lines, and functions that change them. turn is the turn of the diff, or 0. */
export type Said = { comments: readonly Comment[]; put: (c: Comment) => void; drop: (place: string) => void; turn?: number };

/**
 * The lines of a file's diff, with comments if said is given. Only visible
 * lines are rendered, since there may be a hundred thousand.
 */
export const Hunks = memo(function Hunks({ file, split, said }: { file: FileDiff; split: boolean; said?: Said | undefined }) {
  const chunks = useMemo(() => {
    const rows = rowsOf(file, split);
    return Array.from({ length: Math.ceil(rows.length / chunk) }, (_, i) => rows.slice(i * chunk, (i + 1) * chunk));
  }, [file, split]);
  const width = useMemo(() => (split ? 0 : widthOf(file)), [file, split]);
  const [writing, setWriting] = useState("");
  const language = languageOf(file.path);
  return (
    <div className={split ? "diff split" : "diff"} role="region" aria-label={w.of(shownName(file.path))} tabIndex={0}>
      <div className="diff-inner" style={{ minWidth: `max(100%, calc(${width}ch + 90px))` }}>
        {chunks.map((rows, i) => (
          <Chunk key={i} rows={rows} first={i === 0} path={file.path} language={language} said={said} writing={writing} write={setWriting} />
        ))}
      </div>
    </div>
  );
});

type ChunkProps = { rows: readonly Row[]; first: boolean; path: string; language: string; said: Said | undefined; writing: string; write: (place: string) => void };

function Chunk({ rows, first, path, language, said, writing, write }: ChunkProps) {
  const box = useRef<HTMLDivElement>(null);
  const height = useRef(rows.length * high);
  const near = useNear(box, first);
  const placeOf = (line: Line) => placeOfComment({ path, line: line.new ?? line.old ?? 0, side: line.kind === "-" ? "old" : "new", ...(said?.turn ? { turn: said.turn } : {}) });
  const places = useMemo(() => new Set(rows.flatMap((r) => [r.line, r.left, r.right].filter((l) => l !== undefined).map(placeOf))), [rows]); // eslint-disable-line react-hooks/exhaustive-deps -- a place is the line's alone
  const drawn = near || places.has(writing); // keep a comment that is being written
  useLayoutEffect(() => {
    if (drawn && box.current) height.current = box.current.offsetHeight;
  });
  if (!drawn) return <div ref={box} style={{ height: height.current }} />;

  const number = (line: Line): ReactNode => {
    const n = line.new ?? line.old;
    if (n === undefined || !said) return <span className="number">{n}</span>;
    return (
      <button type="button" className="number" aria-label={w.comment(n)} onClick={() => write(placeOf(line))}>
        {n}
      </button>
    );
  };
  const below = (line: Line | undefined): ReactNode => {
    if (!said || !line || line.kind === "\\") return null;
    const place = placeOf(line);
    const comment = said.comments.find((c) => placeOfComment(c) === place);
    if (writing !== place && !comment) return null;
    return (
      <CommentBox
        key={place} said={comment} writing={writing === place} drop={() => said.drop(place)} cancel={() => write("")}
        put={(text) => {
          said.put({ path, line: line.new ?? line.old ?? 0, side: line.kind === "-" ? "old" : "new", code: clipLine(line.text), text, ...(said.turn ? { turn: said.turn } : {}) });
          write("");
        }}
      />
    );
  };
  return (
    <div ref={box}>
      {rows.map((r, i) => (
        <div key={i}>
          {r.head !== undefined && (
            <div className="hunk-head">
              <span className="number" />
              {r.head || "⋯"}
            </div>
          )}
          {r.line && <DiffLine line={r.line} language={language} number={number(r.line)} />}
          {(r.left ?? r.right) && (
            <div className="pair">
              <Half line={r.left} language={language} number={number} old />
              <Half line={r.right} language={language} number={number} />
            </div>
          )}
          {below(r.line)}
          {r.left !== r.right && below(r.left)}
          {below(r.right)}
        </div>
      ))}
    </div>
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
