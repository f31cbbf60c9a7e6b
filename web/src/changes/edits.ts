import type { Call } from "../journal/entry";
import { short, success, text } from "../parts/call";
import { parseDiff, type FileDiff, type Line } from "./parse";

/** The diff of an edit, as reported by the machine or else as requested by the model. */
export function diffOf(c: Call): FileDiff {
  const known = diffs.get(c);
  if (known && known.of === c.result) return known.diff;
  const diff = read(c);
  diffs.set(c, { of: c.result, diff });
  return diff;
}

const diffs = new WeakMap<Call, { of: unknown; diff: FileDiff }>(); // diffs by call; a diff is valid until the call's result changes

const edits = new Set(["StrReplace", "Write", "EditNotebook"]);
export const isEdit = (c: Call): boolean => edits.has(c.name);

function read(c: Call): FileDiff {
  const path = short(c.args["path"]) || short(c.args["target_notebook"]);
  const [file] = parseDiff(text(success(c)?.["diff"]));
  if (file) return { ...file, path: file.path || path };
  const asked: Line[] = [
    ...split(c.args["old_string"]).map((t): Line => ({ kind: "-", text: t })),
    ...split(c.args["new_string"] ?? c.args["contents"]).map((t): Line => ({ kind: "+", text: t })),
  ];
  return { path, status: "changed", binary: false, added: asked.filter((l) => l.kind === "+").length, removed: asked.filter((l) => l.kind === "-").length, hunks: [{ header: "", lines: asked }] };
}

const split = (v: unknown) => (text(v) ? text(v).replace(/\n$/, "").split("\n") : []);
