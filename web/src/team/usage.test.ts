import { expect, test } from "vitest";
import { days, stack, sum, type Row } from "./usage";

const row = (day: string, user: string, input: number): Row => ({
  day, userId: 1, user, runs: 1, turns: 1, inputTokens: input, outputTokens: 1, cacheReadTokens: 2, cacheWriteTokens: 3, costUsd: 0.5, unpricedTokens: user === "Ben" ? 4 : 0,
});
const rows = [row("2026-01-02", "Ada", 10), row("2026-01-01", "Ben", 100), row("2026-01-02", "Ben", 1)];

test("rows are summed by day, in order", () => {
  expect(sum(rows, "day")).toEqual([
    { name: "2026-01-01", runs: 1, input: 100, cached: 5, output: 1, usd: 0.5, unpriced: 4 },
    { name: "2026-01-02", runs: 2, input: 11, cached: 10, output: 2, usd: 1, unpriced: 4 },
  ]);
});

test("and by person, the most first", () => {
  expect(sum(rows, "user").map((s) => s.name)).toEqual(["Ben", "Ada"]);
  expect(sum(rows, "model").map((s) => s.name)).toEqual([""]);
});

test("days have no gaps, over the end of a month", () => {
  expect(days("2026-02-27", "2026-03-02")).toEqual(["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"]);
});

test("a chart has a series for each of the most used, and one for the rest", () => {
  const all = days("2026-01-01", "2026-01-02");
  expect(stack(rows, "user", all, "others")).toEqual([{ name: "Ben", values: [106, 7] }, { name: "Ada", values: [0, 16] }]);
  expect(stack(rows, "day", all, "others")).toEqual([{ name: "", values: [106, 23] }]);
  const many = Array.from({ length: 8 }, (_, i) => row("2026-01-01", `p${i}`, 100 - i));
  const series = stack(many, "user", all, "others");
  expect(series.map((s) => s.name)).toEqual(["p0", "p1", "p2", "p3", "p4", "others"]);
  expect(series.at(-1)?.values[0]).toBe(95 + 94 + 93 + 3 * 6);
});
