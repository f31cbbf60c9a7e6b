import { expect, test } from "vitest";
import { clip, clipLine, newest, shown, shownName, shownProse } from "./clip";

test("the middle of a long text is left out, and counted", () => {
  expect(clip("abc", 3)).toBe("abc");
  expect(clip("a".repeat(500) + "b".repeat(500), 10)).toBe("aaaaa\n[990 characters left out]\nbbbbb");
  expect(clipLine("x".repeat(5), 2)).toBe("xx… [3 characters left out]");
});

test("characters that change the order of text, or cannot be seen, are named", () => {
  expect(shown("rm\u202E -rf \u2066x")).toBe("rm⟨U+202E⟩ -rf ⟨U+2066⟩x");
  expect(shown("rm -rf /tm\u200Bp\u00AD\u{E0041}\u0007")).toBe("rm -rf /tm⟨U+200B⟩p⟨U+00AD⟩⟨U+E0041⟩⟨U+0007⟩");
  for (const c of ["\u3164", "\u180E", "\u2063", "\uFFA0", "\u{E0101}", "\u{E01EF}", "\u{1D173}", "\uFFF9"]) expect(shown(`a${c}b`)).toBe(`a⟨U+${c.codePointAt(0)!.toString(16).toUpperCase()}⟩b`);
  for (const plain of ["❤️", "می‌خواهم", "اكتب", "<b>é 日本 😀</b>", "👩‍💻", "\tif (a)\r\n"]) expect(shown(plain)).toBe(plain);
  expect(shownName("a\nb\u202Egpj.exe")).toBe("a⟨U+000A⟩b⟨U+202E⟩gpj.exe");
  expect(shownProse("see \u202Egnp.exe\u202C \u200Eنعم")).toBe("see ⟨U+202E⟩gnp.exe\u202C \u200Eنعم");
});

test("the newest of a text begins with a line", () => {
  expect(newest("abc", 3)).toBe("abc");
  expect(newest("first\nsecond\nthird", 9)).toBe("[13 characters left out]\nthird");
  expect(newest("abcdef", 2)).toBe("[4 characters left out]\nef");
});
