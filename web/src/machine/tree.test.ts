import { expect, test } from "vitest";
import { sizeOf } from "../few";
import type { FileEntry } from "../api/types";
import { folderOf, nameOf, root, rowsOf, sorted, tidied } from "./tree";

const entry = (name: string, type: FileEntry["type"] = "file"): FileEntry => ({ name, type, sizeBytes: 1, modifiedAt: "2026-01-01T00:00:00Z" });

test("open folders are laid out as lines, and what is not known of one is said", () => {
  const folders = new Map([
    [root, { items: [entry("src", "folder"), entry("none", "folder"), entry("bad", "folder"), entry("a")] }],
    ["src", { items: [entry("deep", "folder"), entry("b")] }],
    ["none", { items: [] }],
    ["bad", { failure: "no" }],
  ]);
  const rows = rowsOf(folders, new Set(["src", "src/deep", "none", "bad", "gone"]));
  expect(rows.map((r) => `${" ".repeat(r.depth)}${r.note ?? r.path}${r.open ? "/" : ""}`)).toEqual([
    "src/", " src/deep/", "  loading", " src/b", "none/", " empty", "bad/", " no", "a",
  ]);
  expect(new Set(rows.map((r) => r.path)).size).toBe(rows.length);
  expect(rowsOf(new Map(), new Set())).toMatchObject([{ note: "loading" }]);
});

test("folders are first, and numbers count", () => {
  expect(sorted([entry("f10"), entry("f9"), entry("b", "folder"), entry("a", "folder")]).map((e) => e.name)).toEqual(["a", "b", "f9", "f10"]);
});

test("paths", () => {
  expect([folderOf("a"), folderOf("a/b/c"), nameOf("a/b"), nameOf("a")]).toEqual([root, "a/b", "b", "a"]);
  expect(["", "./a//b/", "/", "/etc//x", "a/../b", "."].map(tidied)).toEqual(["", "a/b", "/", "/etc/x", "a/../b", ""]);
  expect([0, 999, 1024, 1536, 48_300_000].map(sizeOf)).toEqual(["0 bytes", "999 bytes", "1.0 kB", "1.5 kB", "46.1 MB"]);
});
