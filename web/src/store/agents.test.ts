import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Client } from "../api/client";
import type { AgentSummary } from "../api/types";
import { AgentStore } from "./agents";

let all: AgentSummary[];
let asked: string[];
const agent = (n: number): AgentSummary => ({
  id: `a${n}`, userId: 1, status: "ACTIVE", env: { type: "cloud" }, url: "http://aloft.test", createdAt: new Date(n * 60_000).toISOString(), updatedAt: "2030-01-01T00:00:00Z",
});
const shown = (s: AgentStore) => s.get().items.map((a) => a.id).join(" ");

/** A server with pages of two. */
const client = {
  agents: (_find: unknown, cursor?: string) => {
    asked.push(cursor ?? "");
    const rest = all.filter((a) => !cursor || a.createdAt < cursor).sort((x, y) => (x.createdAt < y.createdAt ? 1 : -1));
    const items = rest.slice(0, 2);
    return Promise.resolve({ items, ...(rest.length > 2 ? { nextCursor: items[1]?.createdAt } : {}) });
  },
} as unknown as Client;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("document", { hidden: false });
  vi.stubGlobal("window", globalThis);
  all = [1, 2, 3, 4, 5].map(agent);
  asked = [];
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("pages come as they are scrolled to, and what goes and comes is seen", async () => {
  const s = new AgentStore(client, {});
  const leave = s.subscribe(() => undefined);
  await vi.advanceTimersByTimeAsync(0);
  expect(shown(s)).toBe("a5 a4");
  expect(s.get().more).toBe(true);

  s.see(0, 1);
  await vi.advanceTimersByTimeAsync(0);
  s.see(2, 3);
  await vi.advanceTimersByTimeAsync(0);
  expect(shown(s)).toBe("a5 a4 a3 a2 a1");
  expect(s.get().more).toBe(false);

  all = [agent(7), agent(6), ...all.filter((a) => a.id !== "a3" && a.id !== "a5")];
  await vi.advanceTimersByTimeAsync(3_000); // the first page, and that in sight
  expect(shown(s)).toBe("a7 a6 a4 a2 a1");

  all = [];
  await s.refresh();
  expect(shown(s)).toBe("");
  leave();
  asked = [];
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked).toEqual([]); // no component watches
});

test("what is known is shown at once, and corrected", async () => {
  const s = new AgentStore(client, {}, [agent(9), agent(4)]);
  expect(shown(s)).toBe("a9 a4");
  const leave = s.subscribe(() => undefined);
  await vi.advanceTimersByTimeAsync(0);
  expect(shown(s)).toBe("a5 a4");
  leave();
});
