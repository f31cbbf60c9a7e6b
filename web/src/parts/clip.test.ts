import { expect, test } from "vitest";
import { clip, clipLine, shown } from "./clip";

test("the middle of a long text is left out, and counted", () => {
  expect(clip("abc", 3)).toBe("abc");
  expect(clip("a".repeat(500) + "b".repeat(500), 10)).toBe("aaaaa\n[990 characters left out]\nbbbbb");
  expect(clipLine("x".repeat(5), 2)).toBe("xx… [3 characters left out]");
});

test("what turns text around is seen", () => {
  expect(shown("rm\u202E -rf \u2066x")).toBe("rm⟨U+202E⟩ -rf ⟨U+2066⟩x");
  expect(shown("اكتب")).toBe("اكتب");
});
