import { expect, test } from "vitest";
import { clip, clipLine, newest, shown } from "./clip";

test("the middle of a long text is left out, and counted", () => {
  expect(clip("abc", 3)).toBe("abc");
  expect(clip("a".repeat(500) + "b".repeat(500), 10)).toBe("aaaaa\n[990 characters left out]\nbbbbb");
  expect(clipLine("x".repeat(5), 2)).toBe("xx… [3 characters left out]");
});

test("what turns text around is seen", () => {
  expect(shown("rm\u202E -rf \u2066x")).toBe("rm⟨U+202E⟩ -rf ⟨U+2066⟩x");
  expect(shown("اكتب")).toBe("اكتب");
});

test("the newest of a text begins with a line", () => {
  expect(newest("abc", 3)).toBe("abc");
  expect(newest("first\nsecond\nthird", 9)).toBe("[13 characters left out]\nthird");
  expect(newest("abcdef", 2)).toBe("[4 characters left out]\nef");
});
