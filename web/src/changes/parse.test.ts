import { expect, test } from "vitest";
import { byPath, markOf, pairs, parseDiff, totalOf } from "./parse";

test("files, hunks and line numbers", () => {
  const [a, b, c, d] = parseDiff(`diff --git a/src/a.ts b/src/a.ts
index 1..2 100644
--- a/src/a.ts
+++ b/src/a.ts
@@ -1,3 +1,4 @@ function f() {
 one
-two
+TWO
+2½
 three
\\ No newline at end of file
@@ -10 +11 @@
-- dashes
++ plus
diff --git a/old name b/new name
similarity index 90%
rename from old name
rename to new name
diff --git "a/\\303\\244\\n.txt" "b/\\303\\244\\n.txt"
new file mode 100644
--- /dev/null
+++ "b/\\303\\244\\n.txt"
@@ -0,0 +1 @@
+x
diff --git a/logo.png b/logo.png
deleted file mode 100644
Binary files a/logo.png and /dev/null differ
`);
  expect(a).toMatchObject({ path: "src/a.ts", status: "changed", added: 3, removed: 2 });
  expect(a?.hunks[0]?.lines).toEqual([
    { kind: " ", text: "one", old: 1, new: 1 },
    { kind: "-", text: "two", old: 2 },
    { kind: "+", text: "TWO", new: 2 },
    { kind: "+", text: "2½", new: 3 },
    { kind: " ", text: "three", old: 3, new: 4 },
    { kind: "\\", text: "No newline at end of file" },
  ]);
  expect(a?.hunks[1]?.lines).toEqual([{ kind: "-", text: "- dashes", old: 10 }, { kind: "+", text: "+ plus", new: 11 }]);
  expect(b).toMatchObject({ path: "new name", from: "old name", status: "renamed" });
  expect(c).toMatchObject({ path: "ä\n.txt", status: "added", added: 1 });
  expect(d).toMatchObject({ path: "logo.png", status: "deleted", binary: true });
});

test("a diff without git's own lines, and no diff at all", () => {
  expect(parseDiff("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")).toMatchObject([{ path: "x", added: 1, removed: 1 }]);
  expect(parseDiff("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n").map((f) => f.path)).toEqual(["x", "y"]);
  expect(parseDiff("")).toEqual([]);
  expect(parseDiff("words\nand words")).toEqual([]);
  expect(parseDiff("@@ -1,9 +1,9 @@\n cut off")).toMatchObject([{ path: "", hunks: [{ lines: [{ text: "cut off" }] }] }]);
});

test("side by side, what changed stands beside what it was", () => {
  const [file] = parseDiff("--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@\n a\n-b\n-c\n+B\n d\n+e\n");
  const hunk = file?.hunks[0];
  expect(hunk && pairs(hunk).map((p) => [p.left?.text, p.right?.text])).toEqual([["a", "a"], ["b", "B"], ["c", undefined], ["d", "d"], [undefined, "e"]]);
});

test("files come before folders, and numbers are in order", () => {
  const paths = ["src/step10.ts", "src/a/b.ts", "src/step2.ts", "README.md", "src/A.ts", "a.txt"];
  expect(paths.map((path) => ({ path })).sort(byPath).map((f) => f.path)).toEqual(["a.txt", "README.md", "src/A.ts", "src/step2.ts", "src/step10.ts", "src/a/b.ts"]);
});

test("the mark of a file changes with its lines", () => {
  const diff = (line: string) => parseDiff(`diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+${line}\n`);
  const [one, same, other] = [diff("new"), diff("new"), diff("newer")].map((files) => (files[0] ? markOf(files[0]) : ""));
  expect(one).toBe(same);
  expect(one).not.toBe(other);
  expect(totalOf([...diff("new"), ...diff("x")])).toEqual({ added: 2, removed: 2 });
});
