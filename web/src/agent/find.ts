import type { Call, Entry } from "../journal/entry";
import { toolOf } from "../tools";
import { words } from "../words";

const longest = 200_000; // maximum number of characters of one entry that are searched

/** Collects the strings in a call's arguments or result. */
function strings(value: unknown, into: string[]): void {
  if (typeof value === "string") into.push(value);
  else if (Array.isArray(value)) for (const one of value) strings(one, into);
  else if (value !== null && typeof value === "object") for (const one of Object.values(value)) strings(one, into);
}

function textOfCall(c: Call): string {
  const parts = [c.name];
  strings(c.args, parts);
  parts.push(c.text || c.output);
  strings(c.result, parts);
  for (const e of c.subagent?.said.entries ?? []) parts.push(textOf(e));
  return parts.join("\n");
}

/** textOf returns the text in an entry's row, whether folded or not. */
export function textOf(e: Entry): string {
  switch (e.kind) {
    case "prompt":
    case "text":
    case "thinking":
      return e.text;
    case "call":
      return textOfCall(e.call);
    case "note":
      return `${words.agent.note[e.about]} ${e.text}`;
    case "boot":
      return e.steps.map((s) => `${s.name} ${s.detail ?? ""}`).join("\n");
    case "end":
      return [words.agent.ended[e.status] ?? e.status, e.message, e.hint, e.code].filter(Boolean).join("\n");
    case "turn":
      return words.agent.turn.no(e.no);
    case "replaced":
      return e.entries.map(textOf).join("\n");
  }
}

/** Lower-case texts by entry. The text of an entry is computed again when its rev has increased. */
const known = new WeakMap<Entry, { rev: number; text: string }>();

function lowered(e: Entry): string {
  const kept = known.get(e);
  if (kept?.rev === e.rev) return kept.text;
  const text = textOf(e).slice(0, longest).toLowerCase();
  known.set(e, { rev: e.rev, text });
  return text;
}

/** hitsOf returns the indexes of the entries that contain a text, ignoring case. */
export function hitsOf(entries: readonly Entry[], text: string): number[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  return entries.flatMap((e, i) => (lowered(e).includes(wanted) ? [i] : []));
}

/** hasFailed reports whether an entry describes a failure of a call, a run or the machine. */
export function hasFailed(e: Entry): boolean {
  if (e.kind === "call") return e.call.state === "failed" || e.call.state === "cut" || (e.call.state === "done" && (toolOf(e.call.name).bad?.(e.call) ?? false));
  if (e.kind === "end") return e.status === "ERROR" || e.status === "EXPIRED" || (e.outcome !== undefined && e.outcome !== "done");
  return e.kind === "note" && e.tone === "red";
}

/** failuresOf returns the indexes of the entries that describe a failure. */
export const failuresOf = (entries: readonly Entry[]): number[] => entries.flatMap((e, i) => (hasFailed(e) ? [i] : []));

/** startsOf returns the indexes at which prompts and turns start. */
export const startsOf = (entries: readonly Entry[]): number[] =>
  entries.flatMap((e, i) => (e.kind === "prompt" || (e.kind !== "turn" && (i === 0 || entries[i - 1]?.kind === "turn")) ? [i] : []));

/** stepFrom returns the next or previous index after a position, wrapping around. */
export function stepFrom(some: readonly number[], from: number, back: boolean): number | undefined {
  return back ? (some.findLast((i) => i < from) ?? some.at(-1)) : (some.find((i) => i > from) ?? some[0]);
}

/** The start and end of every match in a text, ignoring case. */
export function placesIn(text: string, wanted: string, most: number): [from: number, to: number][] {
  const low = text.toLowerCase();
  const whole = low.length === text.length ? low : text; // a few letters have a different length in lower case
  const out: [number, number][] = [];
  for (let at = whole.indexOf(wanted); at >= 0 && out.length < most; at = whole.indexOf(wanted, at + wanted.length)) out.push([at, at + wanted.length]);
  return out;
}
