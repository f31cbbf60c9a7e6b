import type { Call } from "../journal/entry";
import { clipLine, shownLine } from "../parts/clip";
import { words } from "../words";
import { plain } from "./plain";
import { text } from "../parts/call";
import type { Tool } from "./tool";

export type Finding = { at: string; severity: string; title: string };

const most = 20; // maximum number of findings that are shown

/** The findings that a reviewer reports in a call. */
export function findingsOf(c: Call): Finding[] {
  const list: unknown = c.args["findings"];
  if (!Array.isArray(list)) return [];
  return (list.slice(0, most) as (Record<string, unknown> | null)[]).map((f) => {
    const [from, to] = [Number(f?.["line"]) || 0, Number(f?.["end_line"]) || 0];
    return { at: `${text(f?.["path"])}:${from}${to > from ? `-${to}` : ""}`, severity: text(f?.["severity"]).replace("FINDING_SEVERITY_", "").toLowerCase(), title: text(f?.["title"]) };
  });
}

/** A reviewer's report. The result says which findings the server has accepted. */
export const findings: Tool = {
  icon: "list",
  subject: (c) => words.tools.findings(findingsOf(c).length),
  open: (c) => findingsOf(c).length > 0,
  body: (c) => (
    <>
      <ul className="found" role="region" aria-label={words.tools.arguments} tabIndex={0}>
        {findingsOf(c).map((f, n) => (
          <li key={n}>
            <div className="small muted found-path" dir="auto">{shownLine(clipLine(`${f.severity} · ${f.at}`))}</div>
            <p dir="auto">{shownLine(f.title, 300)}</p>
          </li>
        ))}
      </ul>
      {plain.body(c)}
    </>
  ),
};
