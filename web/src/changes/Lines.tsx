import type { ReactNode } from "react";
import { clipLine, shownName } from "../parts/clip";
import { Code } from "../parts/Code";
import { languageOf } from "../parts/colour";
import { words } from "../words";
import type { FileDiff, Line } from "./parse";

const signs: Record<Line["kind"], string> = { " ": " ", "+": "+", "-": "−", "\\": " " };

/** One line of a diff. number is its line number, which may be a button. */
export function DiffLine({ line, language, number }: { line: Line; language: string; number?: ReactNode }) {
  return (
    <div className="diff-line" data-kind={line.kind}>
      {number ?? (
        <span className="number" aria-hidden="true">
          {line.new ?? line.old ?? ""}
        </span>
      )}
      <span className="sign" aria-label={line.kind === "+" ? words.changes.added : line.kind === "-" ? words.changes.removed : undefined} role={line.kind === "+" || line.kind === "-" ? "img" : undefined}>
        {signs[line.kind]}
      </span>
      <code>
        <Code code={clipLine(line.text) || " "} language={language} />
      </code>
    </div>
  );
}

/** A short inline diff, for edits in a conversation. */
export function SmallDiff({ file, most = 60 }: { file: FileDiff; most?: number }) {
  const language = languageOf(file.path);
  const all = file.hunks.flatMap((h) => h.lines);
  return (
    <div className="diff" role="region" aria-label={words.changes.of(shownName(file.path))} tabIndex={0}>
      {all.slice(0, most).map((line, i) => (
        <DiffLine key={i} line={line} language={language} />
      ))}
      {all.length > most && <div className="diff-more">{words.changes.more(all.length - most)}</div>}
    </div>
  );
}
