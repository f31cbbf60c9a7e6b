import { isValidElement, type ReactNode } from "react";
import { expect, test } from "vitest";
import type { Call } from "../journal/entry";
import { computer } from "./computer";

const acted = (actions: unknown, more: object = {}) => ({ args: { actions }, state: "done", text: "", images: [], ...more }) as unknown as Call;
const subject = (...actions: unknown[]) => computer.subject(acted(actions));

/** Returns the texts that a person sees in a node. */
function read(node: ReactNode): string[] {
  if (Array.isArray(node)) return node.flatMap(read);
  if (isValidElement<{ children?: ReactNode }>(node)) return read(node.props.children);
  return typeof node === "string" && node !== "" ? [node] : [];
}

test.each([
  [{ mouse_move: { coordinate: { x: 640, y: 400 } } }, "move to 640, 400"],
  [{ mouseMove: { coordinate: { y: 400 } } }, "move to 0, 400"],
  [{ click: { coordinate: { x: 640, y: 400 } } }, "click left at 640, 400"],
  [{ click: { button: "MOUSE_BUTTON_RIGHT" } }, "click right"],
  [{ click: { button: 3 } }, "click 3"],
  [{ mouse_down: { coordinate: { x: 1, y: 2 }, button: "MOUSE_BUTTON_MIDDLE" } }, "press middle at 1, 2"],
  [{ mouseUp: {} }, "release left"],
  [{ drag: { start: { x: 1, y: 2 }, end: { x: 3, y: 4 } } }, "drag left from 1, 2 to 3, 4"],
  [{ scroll: { amount: 3 } }, "scroll down 3"],
  [{ scroll: { amount: 5, direction: "SCROLL_DIRECTION_UP", coordinate: { x: 9, y: 9 } } }, "scroll up 5 at 9, 9"],
  [{ type: { text: "hello" } }, "type “hello”"],
  [{ key: { key: "ctrl+s" } }, "key ctrl+s"],
  [{ wait: { duration_ms: 500 } }, "wait 500 ms"],
  [{ wait: { durationMs: 500 } }, "wait 500 ms"],
  [{ screenshot: {} }, "screenshot"],
  [{ cursorPosition: {} }, "get pointer position"],
])("%j is said in words", (action, want) => {
  expect(subject(action)).toBe(want);
});

test("a call is its actions on a line, and what came of it", () => {
  expect(subject({ click: {} }, { type: { text: "a\nb" } }, { screenshot: {} })).toBe("click left · type “a b” · screenshot");
  const done = acted([{ cursor_position: {} }], { result: { success: { actionsDone: 1, cursor: { x: 7 } } } });
  expect(computer.outcome?.(done)).toBe("1 action");
  expect(read(computer.body(done))).toEqual(["get pointer position", "The pointer is at 7, 0."]);
  const failed = acted([{ click: {} }], { state: "failed", text: "action 1 of 1, click: the display is gone" });
  expect(computer.open?.(failed)).toBe(true);
  expect(read(computer.body(failed))).toEqual(["click left", failed.text]);
});

test("what is no action is bounded, and does no harm", () => {
  for (const action of [null, 7, "x", [], {}]) expect(subject(action)).toBe("no action");
  expect(subject({ constructor: {} })).toBe("unknown action constructor");
  expect(subject({ click: null, type: { text: "rm" } })).toBe("click left, type “rm”");
  expect(subject({ click: { coordinate: "x", button: { a: 1 } } })).toBe("click ");
  expect(subject({ type: { text: "\u202Egnp" } })).toBe("type “⟨U+202E⟩gnp”");
  for (const args of [undefined, 7, { length: 1e9 }]) expect(computer.subject(acted(args))).toBe("");
  const wide = "w".repeat(1 << 20);
  const all = Array.from({ length: 5_000 }, () => ({ type: { text: wide } }));
  const many = acted([...all, { [wide]: wide }], { state: "failed", text: wide });
  expect(computer.subject(many).length).toBeLessThan(1_000);
  const shown = read(computer.body(many));
  expect(shown).toContain("4901 more");
  expect(shown.join("").length).toBeLessThan(60_000);
});
