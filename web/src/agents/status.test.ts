import { expect, test } from "vitest";
import type { AgentSummary } from "../api/types";
import { listed, repoName, statusOf } from "./status";

const now = Date.parse("2030-01-02T00:00:00Z");
const agent = (id: string, more: Partial<AgentSummary> = {}): AgentSummary => ({
  id, userId: 1, status: "ACTIVE", env: { type: "cloud" }, url: "http://aloft.test", createdAt: `2030-01-01T0${id}:00:00Z`, updatedAt: "2030-01-01T12:00:00Z", ...more,
});

test("one word says how an agent stands", () => {
  for (const [more, want] of [
    [{ runStatus: "RUNNING", machine: "ready" }, "working"],
    [{ runStatus: "RUNNING", machine: "booting" }, "starting"],
    [{ runStatus: "RUNNING", paused: true }, "paused"],
    [{ runStatus: "RUNNING", paused: true, waitingApprovals: 2 }, "asks"],
    [{ runStatus: "CREATING" }, "starting"],
    [{ runStatus: "FINISHED", paused: true }, "done"],
    [{ runStatus: "ERROR" }, "failed"],
    [{ runStatus: "CANCELLED" }, "stopped"],
    [{ runStatus: "EXPIRED" }, "expired"],
    [{ runStatus: "ERROR", status: "ARCHIVED" }, "archived"],
    [{}, "idle"],
  ] as [Partial<AgentSummary>, string][]) {
    expect(statusOf(agent("1", more)), JSON.stringify(more)).toBe(want);
  }
});

test("those that need a person come first, then the newest", () => {
  const all = [
    agent("1"),
    agent("2", { runStatus: "ERROR" }),
    agent("3", { runStatus: "ERROR", updatedAt: "2029-01-01T00:00:00Z" }), // of long ago
    agent("4", { runStatus: "RUNNING", waitingApprovals: 1 }),
    agent("5", { status: "ARCHIVED" }),
    agent("6", { runStatus: "FINISHED" }),
  ];
  const ids = (...args: Parameters<typeof listed>) => listed(...args).map((a) => a.id);
  expect(ids(all, "all", "", now)).toEqual(["4", "2", "6", "3", "1"]);
  expect(ids(all, "needsYou", "", now)).toEqual(["4", "2"]);
  expect(ids(all, "working", "", now)).toEqual(["4"]);
  expect(ids(all, "archived", "", now)).toEqual(["5"]);
});

test("a search looks for every word, wherever it stands", () => {
  const all = [
    agent("1", { name: "Mend the parser", repos: [{ url: "https://git.example.com/acme/shop" }], runStatus: "FINISHED" }),
    agent("2", { name: "Mend the printer", doing: "Shell make test", runStatus: "RUNNING" }),
  ];
  const ids = (search: string) => listed(all, "all", search, now).map((a) => a.id);
  expect(ids("mend SHOP")).toEqual(["1"]);
  expect(ids("finished")).toEqual(["1"]);
  expect(ids("make mend")).toEqual(["2"]);
  expect(ids("mend nothing")).toEqual([]);
});

test("a repository has a short name, however it is addressed", () => {
  for (const url of ["https://git.example.com/acme/shop.git", "git@git.example.com:acme/shop.git", "ssh://git@git.example.com:22/acme/shop", "https://h/group/acme/shop/"]) {
    expect(repoName(url)).toBe("acme/shop");
  }
});
