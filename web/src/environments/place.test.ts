import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Schema } from "../api/client";
import { placeIn, schemasAt } from "./place";

const schema = JSON.parse(readFileSync(new URL("../../../docs/reference/environment.schema.json", import.meta.url), "utf8")) as Schema;
const at = (text: string) => placeIn(text, text.length);

test.each<[string, Partial<ReturnType<typeof at>>]>([
  ["", { slot: "none" }],
  ["{", { path: [], slot: "key" }],
  ['{"ins', { path: [], slot: "key", from: 1, word: "ins" }],
  ['{"install": "npm ci", ', { slot: "key", have: ["install"] }],
  ['{"egressMode": ', { path: ["egressMode"], slot: "value" }],
  ['{"egressMode": "allow', { path: ["egressMode"], slot: "value", from: 15, word: "allow" }],
  ['{"install": "x"', { slot: "none" }],
  ['{"terminals": [{"name": "a"}, {', { path: ["terminals", 1], slot: "key", have: [] }],
  ['{"ports": [3000, ', { path: ["ports", 1], slot: "value" }],
  ['{"a": "\\"{[", // {\n', { slot: "key", have: ["a"] }],
  ["{ // he", { slot: "none" }],
  ['{ /* " */ "disableAllMcpServers": tr', { path: ["disableAllMcpServers"], slot: "value", word: "tr" }],
  ["]]}}{", { path: [], slot: "key" }],
])("%s", (text, want) => {
  expect(at(text)).toMatchObject(want);
});

test("the schema is found at a place", () => {
  const keys = (path: (string | number)[]) => schemasAt(schema, path).flatMap((s) => Object.keys(s.properties ?? {}));
  expect(keys([])).toContain("install");
  expect(keys(["terminals", 0])).toEqual(["command", "description", "name"]);
  expect(keys(["terminals", 0, 0])).toContain("command"); // nested lists are replaced by their items
  expect(keys(["ports", 3])).toContain("port");
  expect(keys(["constructor"])).toEqual([]);
  expect(schemasAt(schema, ["egressMode"])[0]?.enum).toContain("allow_all");
});
