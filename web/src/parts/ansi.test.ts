import { expect, test } from "vitest";
import { ansi } from "./ansi";

const plain = (text: string) => ansi(text).map((s) => s.text).join("");

test("colours and weights become looks", () => {
  expect(ansi("a\x1b[1;31mred\x1b[0m \x1b[38;5;34mgreen\x1b[39m b")).toEqual([
    { text: "a", look: "" },
    { text: "red", look: "red bold" },
    { text: " ", look: "" },
    { text: "green", look: "green" },
    { text: " b", look: "" },
  ]);
  expect(ansi("\x1b[38;2;1;2;3mx\x1b[4my")).toEqual([{ text: "x", look: "" }, { text: "y", look: "underline" }]);
});

test("what a terminal would act on does nothing here", () => {
  for (const evil of ["\x1b]0;title\x07", "\x1b]8;;http://evil.example\x1b\\", "\x1b[2J", "\x1b[10;10H", "\x1bP1$r\x1b\\", "\x1b[?1049h", "\x07", "\x1b]52;c;aGk=\x07", "\x1b(0"]) {
    expect(plain(`a${evil}b`), JSON.stringify(evil)).toBe("ab");
  }
  expect(plain("<script>alert(1)</script>")).toBe("<script>alert(1)</script>"); // text, and shown as such
});

test("progress bars leave their last line", () => {
  expect(plain("10%\r50%\r100%\ndone\r\n")).toBe("100%\ndone\n");
  expect(plain("ab\x08c")).toBe("ac");
});

test("endless input ends", () => {
  const began = performance.now();
  ansi("\x1b[".repeat(100_000));
  ansi("\x1b]".repeat(50_000));
  ansi("\r".repeat(200_000));
  ansi("x".repeat(500_000));
  expect(performance.now() - began).toBeLessThan(5_000); // would be hours if the time were quadratic
});
