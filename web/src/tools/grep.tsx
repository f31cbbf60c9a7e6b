import type { ReactNode } from "react";
import type { Call } from "../journal/entry";
import { clipLine, shown } from "../parts/clip";
import { words } from "../words";
import { short, success, text } from "../parts/call";
import type { Tool } from "./tool";

/** The matches of a search by file, highlighted. */
export function grouped(output: string): { path: string; lines: { no: string; text: string }[] }[] {
  const out: { path: string; lines: { no: string; text: string }[] }[] = [];
  for (const line of output.split("\n")) {
    if (!line || line === "--") continue;
    const m = /^(.+?)[:-](\d+)[:-](.*)$/.exec(line);
    const path = m?.[1] ?? line;
    let group = out.at(-1);
    if (group?.path !== path) out.push((group = { path, lines: [] }));
    if (m) group.lines.push({ no: m[2] ?? "", text: m[3] ?? "" });
  }
  return out;
}

/** Highlights the matches if the pattern is plain text; the model's regular expressions are not run here. */
function marked(line: string, pattern: string): ReactNode {
  const at = /^[\w\s./"'-]+$/.test(pattern) ? line.toLowerCase().indexOf(pattern.toLowerCase()) : -1;
  if (at < 0) return line;
  return (
    <>
      {line.slice(0, at)}
      <mark>{line.slice(at, at + pattern.length)}</mark>
      {line.slice(at + pattern.length)}
    </>
  );
}

const output = (c: Call) => text(success(c)?.["output"]) || c.text;
const most = 200; // maximum number of matching lines that are shown

/** A search in files. */
export const grep: Tool = {
  icon: "search",
  subject: (c) => [text(c.args["pattern"]), c.args["path"] && `${words.tools.in} ${short(c.args["path"])}`, text(c.args["glob"])].filter(Boolean).join(" "),
  outcome: (c) => {
    const lines = success(c)?.["lines"];
    return typeof lines === "number" ? words.tools.lines(lines) : "";
  },
  body: (c) => {
    const pattern = text(c.args["pattern"]);
    return (
      <div className="found" role="region" aria-label={words.tools.output} tabIndex={0}>
        {grouped(output(c).split("\n", most).map((l) => shown(clipLine(l))).join("\n")).map((g, i) => (
          <div key={i}>
            <div className="found-path">{short(g.path)}</div>
            {g.lines.map((l, j) => (
              <div key={j} className="found-line">
                <span className="number">{l.no}</span>
                <code>{marked(l.text, pattern)}</code>
              </div>
            ))}
          </div>
        ))}
      </div>
    );
  },
};
