import { Code } from "../parts/Code";
import { clip, shown } from "../parts/clip";
import { words } from "../words";
import { short, text } from "../parts/call";
import type { Tool } from "./tool";

const about = ["description", "path", "query", "url", "glob_pattern", "pattern", "target_directory", "name"];

/** The view of any other tool: arguments and result. */
export const plain: Tool = {
  icon: "dots",
  subject: (c) => {
    for (const name of about) if (text(c.args[name])) return short(c.args[name]);
    return "";
  },
  body: (c) => (
    <>
      <pre className="output" tabIndex={0} aria-label={words.tools.arguments}>
        <Code code={clip(JSON.stringify(c.args, null, 2), 20_000)} language="json" />
      </pre>
      {(c.text || c.output) && (
        <pre className="output" tabIndex={0} aria-label={words.tools.output}>
          {shown(clip(c.text || c.output, 40_000))}
        </pre>
      )}
    </>
  ),
};

export const web: Tool = { ...plain, icon: "globe" };
export const files: Tool = { ...plain, icon: "file" };
