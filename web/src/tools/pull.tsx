import type { Call } from "../journal/entry";
import { address } from "../changes/pulls";
import { clipLine, shown, shownLine } from "../parts/clip";
import { words } from "../words";
import { plain } from "./plain";
import { success, text } from "../parts/call";
import type { Tool } from "./tool";

const most = 50; // maximum number of remarks or checks that are shown
const longest = 4_000; // characters shown of a remark

export type Remark = { author: string; body: string; url: string | undefined; about: string };

const list = (v: unknown): Record<string, unknown>[] => (Array.isArray(v) ? v.filter((x) => x !== null && typeof x === "object") : []);

const named = (names: Record<string, string>, name: unknown) => (Object.hasOwn(names, text(name)) ? (names[text(name)] ?? "") : "");

/** The comments, reviews and thread comments that a call has read, newest last. */
export const remarksOf = (c: Call): Remark[] =>
  list(success(c)?.["remarks"])
    .slice(-most)
    .map((r) => ({ author: text(r["author"]), body: text(r["body"]), url: address(text(r["url"])), about: aboutOf(r) }));

function aboutOf(r: Record<string, unknown>): string {
  const path = text(r["path"]);
  const line = typeof r["line"] === "number" && r["line"] > 0 ? `:${r["line"]}` : "";
  const parts = [
    named(words.tools.pull.verdicts, r["verdict"]),
    path && path + line,
    r["resolved"] === true ? words.tools.pull.resolved : "",
    r["outdated"] === true ? words.tools.pull.outdated : "",
    text(r["mayWrite"]) === "no" ? words.tools.pull.mayNotWrite : "",
  ];
  return parts.filter(Boolean).join(", ");
}

const actionOf = (c: Call) => named(words.tools.pull.actions, c.args["action"]);

/** An agent's action on its pull request. */
export const pull: Tool = {
  icon: "branch",
  subject: (c) => shownLine(clipLine([actionOf(c), text(c.args["title"]) || text(c.args["check"])].filter(Boolean).join(": "))),
  outcome: (c) => {
    const s = success(c);
    if (s?.["timedOut"] === true) return words.tools.pull.timedOut;
    const n = list(s?.["remarks"]).length;
    const failed = list(s?.["checks"]).filter((k) => k["state"] === "failure").length;
    if (n) return words.tools.pull.remarks(n);
    return failed ? words.tools.pull.failed(failed) : "";
  },
  body: (c) => {
    const remarks = remarksOf(c);
    const said = text(c.args["body"]);
    if (remarks.length)
      return (
        <ul className="found" role="region" aria-label={words.tools.output} tabIndex={0}>
          {remarks.map((r, i) => (
            <li key={i}>
              {r.url ? (
                <a href={r.url} target="_blank" rel="noreferrer noopener nofollow" dir="auto">
                  {shownLine(clipLine(r.author))}
                </a>
              ) : (
                <span dir="auto">{shownLine(clipLine(r.author))}</span>
              )}
              {r.about && <span className="small muted"> {shownLine(clipLine(r.about))}</span>}
              <p dir="auto">
                {shownLine(r.body, longest)}
              </p>
            </li>
          ))}
        </ul>
      );
    if (!said) return plain.body(c);
    return (
      <>
        <pre className="output" tabIndex={0} aria-label={words.tools.pull.body} dir="auto">
          {shown(said)}
        </pre>
        {c.text && <p className="small muted">{shownLine(c.text, longest)}</p>}
      </>
    );
  },
};
