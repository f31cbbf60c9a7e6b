import { diffOf } from "../changes/edits";
import { SmallDiff } from "../changes/Lines";
import { clip } from "../parts/clip";
import { short } from "../parts/call";
import type { Tool } from "./tool";

/** A change of a file as a diff. */
export const edit: Tool = {
  icon: "edit",
  subject: (c) => short(c.args["path"] ?? c.args["target_notebook"]),
  outcome: (c) => {
    const { added, removed } = diffOf(c);
    return `+${added} −${removed}`;
  },
  open: (c) => c.state !== "failed",
  body: (c) => (
    <>
      {c.state === "failed" && <pre className="output">{clip(c.text, 20_000)}</pre>}
      <SmallDiff file={diffOf(c)} />
    </>
  ),
};
