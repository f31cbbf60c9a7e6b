import type { Amount } from "../api/types";
import { words } from "../words";
import { few } from "../few";
import { dollars } from "./money";
import { span } from "./time";

const w = words.agent.used;

/** A run's usage compared to its limits, as text; "" if it has none. */
export function usedOf(limits?: Amount, used: Amount = {}): string {
  const parts: string[] = [];
  if (limits?.turns) parts.push(w.turns(used.turns ?? 0, limits.turns));
  if (limits?.tokens) parts.push(w.tokens(few(used.tokens ?? 0), few(limits.tokens)));
  if (limits?.costUsd) parts.push(w.money(dollars(used.costUsd ?? 0), dollars(limits.costUsd)));
  if (limits?.seconds) parts.push(w.time(span((used.seconds ?? 0) * 1000), span(limits.seconds * 1000)));
  return parts.join(", ");
}

/** Limits as a user enters them. */
export type Bounds = { turns?: string; tokens?: string; dollars?: string; minutes?: string };

/** Converts limits to the form for requests; undefined if nothing is limited. */
export function limitsOf(f: Bounds): Amount | undefined {
  const out: Amount = {};
  if (Number(f.turns) > 0) out.turns = Math.round(Number(f.turns));
  if (Number(f.tokens) > 0) out.tokens = Math.round(Number(f.tokens));
  if (Number(f.dollars) > 0) out.costUsd = Number(f.dollars);
  if (Number(f.minutes) > 0) out.seconds = Math.round(Number(f.minutes) * 60);
  return Object.keys(out).length > 0 ? out : undefined;
}
