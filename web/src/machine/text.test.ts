import { EditorState } from "@codemirror/state";
import { expect, test } from "vitest";
import { lineEndOf, pictureOf, textOf } from "./text";

const bytes = (s: string) => new TextEncoder().encode(s);

// An unchanged text is written back with the same bytes.
test.each(["", "a", "a\nb\n", "a\r\nb\r\n", "a\r\nb\n", "\n", "\r\n", "\r", "a\rb\r\nc", "\n\r\n", "\ufeffa\r\nb", "é\u2028😀\u0085\n"])("%j stays as it is", (s) => {
  const text = textOf(bytes(s));
  expect(text).toBe(s);
  const state = EditorState.create({ doc: s, extensions: [EditorState.lineSeparator.of(lineEndOf(s))] });
  expect(state.sliceDoc()).toBe(s);
});

test("what is no text is told", () => {
  expect(textOf(Uint8Array.of(1, 0, 2))).toBeUndefined();
  expect(textOf(Uint8Array.of(0xff, 0xfe))).toBeUndefined();
  expect(textOf(Uint8Array.of(0xc3))).toBeUndefined();
});

test("pictures are known by their names, and SVG is a text", () => {
  expect(["a.PNG", "x/b.jpeg", "c.svg", "png", "d.txt"].map(pictureOf)).toEqual(["image/png", "image/jpeg", "", "image/png", ""]);
});
