import type { Call } from "../journal/entry";
import type { Transcript } from "../journal/fold";
import { words } from "../words";
import { plain } from "./plain";
import { text } from "../parts/call";
import type { Tool } from "./tool";
import { toolOf } from "./index";

/** A subagent's current activity: its last call, or thinking. */
function now(said: Transcript): string {
  for (const e of [...said.entries].reverse()) {
    if (e.kind === "call" && e.call.state !== "done") return `${e.call.name} ${toolOf(e.call.name).subject(e.call)}`;
    if (e.kind === "text" && e.live) return words.tools.subagent.writes;
  }
  return words.agent.thinking;
}

const calls = (c: Call): number => c.subagent?.said.entries.filter((e) => e.kind === "call").length ?? 0;

/** A task for a subagent; agent/SubagentView shows its work. */
export const task: Tool = {
  icon: "team",
  subject: (c) => {
    const about = words.tools.subagent.of(c.subagent?.type ?? (text(c.args["subagent_type"]) || "generalPurpose"), text(c.args["description"]));
    return c.subagent && c.state === "running" ? `${about} · ${now(c.subagent.said)}` : about;
  },
  outcome: (c) => (c.subagent ? [...(c.subagent.background ? [words.tools.subagent.background] : []), words.tools.subagent.calls(calls(c))].join(" · ") : ""),
  open: (c) => c.subagent?.said.entries.some((e) => e.kind === "call" && e.call.state === "asks") ?? false,
  body: plain.body,
};
