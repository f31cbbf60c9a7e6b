import { expect, test } from "vitest";
import type { Entry } from "../journal/entry";
import { failuresOf, hitsOf, placesIn, startsOf, stepFrom } from "./find";
import { turnIn } from "./finding";

const base = { rev: 0, time: "", seq: 0 };
const tokens = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
const call = (key: string, name: string, more: object): Entry => ({ ...base, key, kind: "call", call: { id: key, name, args: {}, state: "done", output: "", text: "", images: [], ...more } });

const entries: Entry[] = [
  { ...base, key: "1", kind: "prompt", text: "Fix the Parser", images: [], runId: "r" },
  { ...base, key: "2", kind: "text", text: "I look at it.", live: false },
  call("3", "Shell", { args: { command: "make test", nested: [{ deep: "needle" }] }, result: { success: { exitCode: 2, stdout: "x" } }, text: "x" }),
  { ...base, key: "4", kind: "turn", no: 1, tokens, ms: 0 },
  call("5", "Read", { state: "failed", text: "no such file: parser.go" }),
  { ...base, key: "6", kind: "turn", no: 2, tokens, ms: 0 },
  { ...base, key: "7", kind: "end", status: "FINISHED", outcome: "done", ms: 0 },
];

test("search finds words in prompts, replies, arguments and output, in any case", () => {
  expect(hitsOf(entries, "parser")).toEqual([0, 4]);
  expect(hitsOf(entries, " NEEDLE ")).toEqual([2]);
  expect(hitsOf(entries, "turn 2")).toEqual([5]);
  expect(hitsOf(entries, "  ")).toEqual([]);
});

test("an entry that has changed is searched again", () => {
  const text: Entry = { ...base, key: "t", kind: "text", text: "one", live: true };
  expect(hitsOf([text], "two")).toEqual([]);
  text.text += " two";
  expect(hitsOf([text], "two")).toEqual([]); // only a new rev shows that the entry has changed
  text.rev++;
  expect(hitsOf([text], "two")).toEqual([0]);
});

test("a command that exits with another status than 0 is a failure, as is a call that failed", () => {
  expect(failuresOf(entries)).toEqual([2, 4]);
});

test("prompts and the first entries of turns are starts", () => {
  expect(startsOf(entries)).toEqual([0, 4, 6]);
});

test("steps go on at the other end", () => {
  expect([stepFrom([2, 4], 3, false), stepFrom([2, 4], 4, false), stepFrom([2, 4], 2, true), stepFrom([], 2, true)]).toEqual([4, 2, 4, undefined]);
});

test("places in a text do not overlap", () => {
  expect(placesIn("aAaa", "aa", 10)).toEqual([[0, 2], [2, 4]]);
  expect(placesIn("aaaa", "a", 2)).toHaveLength(2);
  expect(placesIn("İx", "x", 2)).toEqual([[1, 2]]);
});

test("an address names a turn", () => {
  expect([turnIn("#turn-12"), turnIn("#turn-x"), turnIn("")]).toEqual([12, 0, 0]);
});
