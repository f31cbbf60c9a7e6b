import type { Call } from "../journal/entry";
import { Ansi } from "../parts/Ansi";
import { plainText } from "../parts/ansi";
import { clip, newest, shown } from "../parts/clip";
import { Copy } from "../parts/Copy";
import { words } from "../words";
import { success, text } from "../parts/call";
import type { Tool } from "./tool";

const exitOf = (c: Call): number => {
  const code = success(c)?.["exitCode"];
  return typeof code === "number" ? code : 0;
};

const mostPrinted = 60_000; // characters
const mostLive = 6_000; // the most recent ones while the command runs: they are parsed again for every piece

/** A command and its output. */
export const shell: Tool = {
  icon: "terminal",
  subject: (c) => text(c.args["description"]) || text(c.args["command"]).split("\n")[0] || "",
  outcome: (c) => (exitOf(c) ? words.tools.exit(exitOf(c)) : ""),
  bad: (c) => exitOf(c) !== 0,
  open: (c) => c.state === "running" || c.state === "failed" || c.state === "cut" || c.state === "asks",
  body: (c) => {
    const done = success(c);
    const printed = done ? [text(done["stdout"]), text(done["stderr"])].filter(Boolean).join("\n") : c.output || c.text;
    const live = c.state === "running";
    return (
      <>
        <div className="fenced">
          <Copy text={text(c.args["command"])} />
          <pre className="command" tabIndex={0}>
            <code>{shown(clip(text(c.args["command"]), 20_000))}</code>
          </pre>
        </div>
        {printed && (
          <div className="fenced">
            {!live && <Copy text={() => plainText(printed)} label={words.agent.copyOutput} />}
            <pre className="output" data-live={live ? "" : undefined} tabIndex={0} aria-label={words.tools.output}>
              <code>
                <Ansi text={live ? newest(printed, mostLive) : clip(printed, mostPrinted)} />
              </code>
            </pre>
          </div>
        )}
      </>
    );
  },
};
