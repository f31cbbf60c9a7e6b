import type { Entry } from "../journal/entry";
import { diffOf, isEdit } from "./edits";
import type { FileDiff } from "./parse";

/**
 * The edits of a turn according to the journal. The journal does not record changes by commands.
 */
export type TurnEdits = { no: number; key: string; files: FileDiff[]; commands: number; replaced: boolean };

/** Returns the turns that edited files or ran commands, newest last. */
export function turnsOf(entries: readonly Entry[], replaced = false): TurnEdits[] {
  const out: TurnEdits[] = [];
  let files: FileDiff[] = [];
  let commands = 0;
  const add = (of: readonly Entry[]) => {
    for (const e of of) {
      if (e.kind !== "call") continue;
      if (e.call.state === "done" && isEdit(e.call)) files.push(diffOf(e.call));
      else if (e.call.name === "Shell" && e.call.state !== "refused") commands++;
      if (e.call.subagent) add(e.call.subagent.said.entries); // a subagent's edits belong to the turn that called it
    }
  };
  for (const e of entries) {
    if (e.kind === "replaced") out.push(...turnsOf(e.entries, true));
    else if (e.kind === "call") add([e]);
    else if (e.kind === "turn") {
      if (files.length > 0 || commands > 0) out.push({ no: e.no, key: e.key, files, commands, replaced });
      files = [];
      commands = 0;
    }
  }
  return out;
}

/** The URL for creating a pull request at a known forge; undefined for other forges. */
export function pullURL(repo: string, branch: string): string | undefined {
  const m = /^(?:https:\/\/|git@|ssh:\/\/git@)([^/:@]+)[/:](.+?)(?:\.git)?\/?$/.exec(repo);
  if (!m || !branch) return undefined;
  const [, host = "", path = ""] = m;
  const base = `https://${host}/${path.split("/").map(encodeURIComponent).join("/")}`;
  const name = encodeURIComponent(branch);
  if (host === "github.com") return `${base}/compare/${branch.split("/").map(encodeURIComponent).join("/")}?expand=1`;
  if (host === "gitlab.com" || host.startsWith("gitlab.")) return `${base}/-/merge_requests/new?merge_request%5Bsource_branch%5D=${name}`;
  if (host === "bitbucket.org") return `${base}/pull-requests/new?source=${name}`;
  return undefined;
}
