import { expect, test } from "vitest";
import type { AgentSummary } from "../api/types";
import { asksFirst, listed, repoName, standings, statusOf } from "./status";
import type { Find } from "../api/types";

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

test("agents that ask come first, and are no longer buried under newer failures", () => {
  const failed = agent("2", { runStatus: "ERROR" });
  const asks = agent("1", { runStatus: "RUNNING", waitingApprovals: 1 });
  const answered = agent("0", { runStatus: "RUNNING" }); // between two looks
  expect(asksFirst([answered, asks], [agent("3"), failed, answered]).map((a) => a.id)).toEqual(["1", "3", "2", "0"]);
});

test("what is known is narrowed until the server has answered", () => {
  const all = [
    agent("1", { name: "Mend the parser", repos: [{ url: "https://git.example.com/acme/shop" }], runStatus: "FINISHED" }),
    agent("2", { name: "Mend the printer", runStatus: "ERROR", userId: 2 }),
    agent("3", { runStatus: "ERROR", updatedAt: "2029-01-01T00:00:00Z" }), // of long ago
    agent("4", { runStatus: "RUNNING", waitingApprovals: 1 }),
    agent("5", { runStatus: "CANCELLED", status: "ARCHIVED" }),
  ];
  for (const [find, want] of [
    [{}, "1 2 3 4"],
    [{ search: "mend SHOP" }, "1"],
    [{ search: "mend nothing" }, ""],
    [{ status: standings.asks }, "4"],
    [{ status: standings.failed }, "2 3"],
    [{ status: "needs-you" }, "2 4"],
    [{ status: "working" }, "4"],
    [{ status: standings.done }, "1"],
    [{ status: "archived" }, "5"],
    [{ user: 2 }, "2"],
    [{ user: "everybody" }, "1 2 3 4"],
    [{ repository: "https://git.example.com/acme/shop" }, "1"],
    [{ from: "2030-01-01T02:00:00Z", to: "2030-01-01T04:00:00Z" }, "2 3"],
  ] as [Find, string][]) {
    expect(listed(all, find, now).map((a) => a.id).join(" "), JSON.stringify(find)).toBe(want);
  }
});

test("a repository has a short name, however it is addressed", () => {
  for (const url of ["https://git.example.com/acme/shop.git", "git@git.example.com:acme/shop.git", "ssh://git@git.example.com:22/acme/shop", "https://h/group/acme/shop/"]) {
    expect(repoName(url)).toBe("acme/shop");
  }
});
