import { Code } from "../parts/Code";
import { languageOf } from "../parts/colour";
import { clipLine } from "../parts/clip";
import { words } from "../words";
import { short, text } from "../parts/call";
import type { Tool } from "./tool";

const numbered = /^ *(\d+)\|(.*)$/;

/** A file that was read. */
export const read: Tool = {
  icon: "file",
  subject: (c) => short(c.args["path"]),
  outcome: (c) => (c.images.length > 0 ? words.tools.pictures(c.images.length) : c.state === "done" ? words.tools.lines(c.text.split("\n").filter((l) => numbered.test(l)).length) : ""),
  body: (c) => {
    const lines = c.text.split("\n", 400).map((l) => clipLine(l));
    const language = languageOf(text(c.args["path"]));
    return (
      <div className="found" role="region" aria-label={short(c.args["path"])} tabIndex={0}>
        {lines.map((line, i) => {
          const m = numbered.exec(line);
          return (
            <div key={i} className="found-line">
              <span className="number">{m?.[1] ?? ""}</span>
              <code>
                <Code code={m ? (m[2] ?? "") : line} language={m ? language : ""} />
              </code>
            </div>
          );
        })}
      </div>
    );
  },
};
