import type { TeamUsage } from "../api/types";

export type Row = TeamUsage["items"][number];
export type Group = "day" | "user" | "repository" | "model";
export type Sum = { name: string; runs: number; input: number; cached: number; output: number; usd?: number; unpriced: number };

export const tokens = (s: Sum): number => s.input + s.cached + s.output;

/** sum adds up rows with the same key, the largest first; days are in order. */
export function sum(rows: readonly Row[], by: Group): Sum[] {
  const all = new Map<string, Sum>();
  for (const r of rows) {
    const name = r[by] ?? "";
    const s = all.get(name) ?? { name, runs: 0, input: 0, cached: 0, output: 0, unpriced: 0 };
    s.runs += r.runs;
    s.input += r.inputTokens;
    s.cached += r.cacheReadTokens + r.cacheWriteTokens;
    s.output += r.outputTokens;
    if (r.costUsd !== undefined) s.usd = (s.usd ?? 0) + r.costUsd;
    s.unpriced += r.unpricedTokens ?? 0;
    all.set(name, s);
  }
  const out = [...all.values()];
  return by === "day" ? out.sort((a, b) => (a.name < b.name ? -1 : 1)) : out.sort((a, b) => tokens(b) - tokens(a) || (a.name < b.name ? -1 : 1));
}

/** days returns all days from the first to the last, with or without usage, as 2006-01-02. */
export function days(from: string, to: string): string[] {
  const out: string[] = [];
  for (let t = Date.parse(from); t <= Date.parse(to); t += 86_400_000) out.push(new Date(t).toISOString().slice(0, 10));
  return out;
}

const most = 5; // maximum number of series in a chart; the others are combined into one

export type Series = { name: string; values: number[] };

/** stack returns the series of a chart, one for each key, with the key's tokens of each day. The largest is at the bottom. */
export function stack(rows: readonly Row[], by: Group, all: readonly string[], others: string): Series[] {
  const place = new Map(all.map((day, i) => [day, i]));
  const names = by === "day" ? [""] : sum(rows, by).map((s) => s.name);
  const series = names.slice(0, most).map((name): Series => ({ name, values: all.map(() => 0) }));
  const rest: Series = { name: others, values: all.map(() => 0) };
  for (const r of rows) {
    const i = place.get(r.day);
    if (i === undefined) continue;
    const s = series[by === "day" ? 0 : names.indexOf(r[by] ?? "")] ?? rest;
    s.values[i] = (s.values[i] ?? 0) + r.inputTokens + r.cacheReadTokens + r.cacheWriteTokens + r.outputTokens;
  }
  return names.length > most ? [...series, rest] : series;
}
