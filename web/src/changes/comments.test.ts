import { expect, test } from "vitest";
import { promptOf } from "./comments";

test("comments become a prompt, in the order of the files", () => {
  const text = promptOf(
    [
      { path: "b.md", line: 3, side: "new", code: "```js", text: "why a fence?" },
      { path: "a.ts", line: 20, side: "new", code: "x()", text: " rename " },
      { path: "a.ts", line: 4, side: "old", code: "y()", text: "keep" },
      { path: "a.ts", line: 2, side: "old", code: "z()", text: "why?", turn: 3 },
    ],
    "Please:",
  );
  expect(text).toBe("Please:\n\na.ts:4 (before your change)\n```\ny()\n```\nkeep\n\na.ts:20\n```\nx()\n```\nrename\n\na.ts:2 (as of turn 3) (before your change)\n```\nz()\n```\nwhy?\n\nb.md:3\n````\n```js\n````\nwhy a fence?");
});
