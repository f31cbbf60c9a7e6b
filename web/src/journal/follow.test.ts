import { afterEach, expect, test, vi } from "vitest";
import type { Client } from "../api/client";
import { Follower } from "./follow";

afterEach(() => vi.unstubAllGlobals());

const line = (seq: number) => JSON.stringify({ seq, time: "2026-01-01T00:00:00Z", kind: "text.delta", data: { text: `${seq} ` } });

test("a journal is followed from its newest events, and none comes twice", async () => {
  vi.stubGlobal("requestAnimationFrame", (f: () => void) => setTimeout(f, 0));
  vi.stubGlobal("window", { setInterval, clearInterval });
  const asked: string[] = [];
  let whole: () => void = () => undefined;
  const client = {
    journal: () => Promise.resolve({ head: 42, counted: 0, turns: 0, usage: {}, todos: [], queue: [] }),
    recent: async function* () {
      asked.push("recent");
      yield* [line(41), line(42)];
    },
    follow: async function* (_id: string, after: number) {
      asked.push(`after ${after}`);
      if (after < 44) yield* [line(42), line(43), line(44)];
      else await new Promise<void>((done) => (whole = done)); // no further event arrives
    },
  };
  const follower = new Follower(client as unknown as Client, "bc-1");
  const stop = follower.start();
  await vi.waitFor(() => expect(asked).toContain("after 44"), { timeout: 20_000 });
  expect(asked).toEqual(["recent", "after 42", "after 44"]); // the connection was lost, and made again
  expect(follower.whole && follower.more).toBe(true);
  expect(follower.transcript.entries.map((e) => (e.kind === "text" ? e.text : e.kind)).join("")).toBe("41 42 43 44 ");
  stop();
  whole();
});
