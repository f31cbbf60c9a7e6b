import { expect, test } from "vitest";
import { limitsOf, usedOf } from "./limits";

test("what is used is told of what is limited, and of nothing else", () => {
  expect(usedOf(undefined, { turns: 3 })).toBe("");
  expect(usedOf({ turns: 20, costUsd: 5 }, { turns: 3, tokens: 900, costUsd: 1.254 })).toBe("3 of 20 turns, $1.25 of $5.00");
  expect(usedOf({ tokens: 2_000_000, seconds: 3600 }, { seconds: 90 })).toBe("0 of 2.0M tokens, 1 min of 1 h");
});

test("an empty form limits nothing", () => {
  expect(limitsOf({})).toBeUndefined();
  expect(limitsOf({ minutes: "", turns: "0", dollars: "-1", tokens: "x" })).toBeUndefined();
  expect(limitsOf({ turns: "20", tokens: "5000", dollars: "2.5", minutes: "90" })).toEqual({ turns: 20, tokens: 5000, costUsd: 2.5, seconds: 5400 });
});
