import { expect, test, vi } from "vitest";
import type { Socket } from "../api/transport";
import { Pty } from "./pty";

/** A fake machine's side of the protocol. */
class Wire implements Socket {
  onopen: (() => void) | null = null;
  onmessage: ((data: string | ArrayBuffer) => void) | null = null;
  onclose: ((why: string) => void) | null = null;
  readonly sent: unknown[] = [];
  send(data: string | Uint8Array): void {
    this.sent.push(typeof data === "string" ? JSON.parse(data) : [...data]);
  }
  close(): void {
    this.onclose?.("");
  }
  say(message: object): void {
    this.onmessage?.(JSON.stringify(message));
  }
  print(text: string): void {
    this.onmessage?.(new Uint8Array([1, ...new TextEncoder().encode(text)]).buffer);
  }
}

function opened() {
  const wires: Wire[] = [];
  const heard: string[] = [];
  const pty = new Pty(
    () => {
      const w = new Wire();
      wires.push(w);
      return w;
    },
    "main",
    { columns: 80, rows: 24 },
    {
      output: (b) => heard.push(new TextDecoder().decode(b)),
      attached: () => heard.push("[attached]"),
      gap: () => heard.push("[gap]"),
      ended: (code) => heard.push(`[exit ${code}]`),
      lost: (why, final) => heard.push(`[lost ${why} ${final}]`),
    },
  );
  const last = () => wires.at(-1) as Wire;
  return { pty, heard, wires, last };
}

test("what is typed and printed is passed on, and a size", () => {
  const { pty, heard, last } = opened();
  last().onopen?.();
  expect(last().sent).toEqual([{ type: "terminal", terminal: "main", columns: 80, rows: 24 }]);
  last().say({ type: "attached", id: "p1", offset: 7 });
  last().print("$ ");
  pty.type("é\r");
  pty.resize(100, 30);
  expect(heard).toEqual(["[attached]", "$ "]);
  expect(last().sent.slice(1)).toEqual([[0, 0xc3, 0xa9, 13], { type: "resize", columns: 100, rows: 30 }]);
});

test("a lost connection goes on at the byte where it was cut", () => {
  vi.useFakeTimers();
  try {
    const { heard, wires, last } = opened();
    last().onopen?.();
    last().say({ type: "attached", id: "p1", offset: 7 });
    last().print("abc");
    last().close();
    vi.advanceTimersByTime(600);
    expect(wires).toHaveLength(2);
    last().onopen?.();
    expect(last().sent).toEqual([{ type: "attach", id: "p1", from: 10, columns: 80, rows: 24 }]);
    last().say({ type: "attached", id: "p1", offset: 10 });
    last().say({ type: "gap", offset: 20 });
    last().print("d");
    last().close();
    vi.advanceTimersByTime(600);
    last().onopen?.();
    expect(last().sent).toEqual([{ type: "attach", id: "p1", from: 21, columns: 80, rows: 24 }]);
    expect(heard).toEqual(["[attached]", "abc", "[lost  false]", "[attached]", "[gap]", "d", "[lost  false]"]);
  } finally {
    vi.useRealTimers();
  }
});

test("the end is the end", () => {
  vi.useFakeTimers();
  try {
    const { heard, wires, last } = opened();
    last().onopen?.();
    last().say({ type: "attached", id: "p1", offset: 0 });
    last().say({ type: "exit", code: 3 });
    last().close();
    vi.advanceTimersByTime(60_000);
    expect(wires).toHaveLength(1);
    expect(heard.at(-1)).toBe("[exit 3]");
    const refused = opened();
    refused.last().onopen?.();
    refused.last().say({ type: "error", error: "x", message: "no machine" });
    refused.last().close();
    vi.advanceTimersByTime(60_000);
    expect(refused.heard).toEqual(["[lost no machine true]"]);
    expect(refused.wires).toHaveLength(1);
  } finally {
    vi.useRealTimers();
  }
});
