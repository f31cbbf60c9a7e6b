import type { AgentSummary } from "../api/types";
import { words } from "../words";

export type Status = keyof typeof words.status;
export type Tone = "amber" | "red" | "green" | "blue" | "grey";

export const toneOf: Record<Status, Tone> = {
  asks: "amber", failed: "red", starting: "blue", working: "blue", paused: "amber", done: "green", stopped: "grey", expired: "red", archived: "grey", idle: "grey",
};

/** statusOf is how an agent stands, in one word: what a person has to know first. */
export function statusOf(a: AgentSummary): Status {
  if (a.status === "ARCHIVED") return "archived";
  if (a.waitingApprovals) return "asks";
  switch (a.runStatus) {
    case "CREATING":
      return a.paused ? "paused" : "starting";
    case "RUNNING":
      if (a.paused) return "paused";
      return a.machine === "booting" ? "starting" : "working";
    case "FINISHED":
      return "done";
    case "ERROR":
      return "failed";
    case "CANCELLED":
      return "stopped";
    case "EXPIRED":
      return "expired";
  }
  return "idle";
}

export const isOpen = (a: AgentSummary) => a.runStatus === "CREATING" || a.runStatus === "RUNNING";

const fresh = 24 * 3600 * 1000; // how long a failure stands at the top, in milliseconds

/** needsYou is whether an agent goes no further without a person. */
export function needsYou(a: AgentSummary, now: number): boolean {
  const status = statusOf(a);
  return status === "asks" || (status === "failed" && now - Date.parse(a.updatedAt) < fresh);
}

export type Filter = keyof typeof words.agents.filter;

const passes: Record<Filter, (a: AgentSummary, now: number) => boolean> = {
  all: (a) => a.status !== "ARCHIVED",
  needsYou,
  working: (a) => a.status !== "ARCHIVED" && isOpen(a),
  done: (a) => a.status !== "ARCHIVED" && !isOpen(a),
  archived: (a) => a.status === "ARCHIVED",
};

/** repoName is the last two parts of a repository's address: owner/name. */
export function repoName(url: string): string {
  const path = url.replace(/^[a-z+]+:\/\/[^/]*\//i, "").replace(/^[^/]*@[^:/]*:/, "");
  return path.replace(/\.git$/, "").split("/").filter(Boolean).slice(-2).join("/");
}

/** What a search looks through. */
function textOf(a: AgentSummary): string {
  return [a.name, a.id, words.status[statusOf(a)], a.doing, ...(a.repos ?? []).map((r) => `${r.url} ${r.startingRef ?? ""}`)].join(" ").toLowerCase();
}

/**
 * listed picks the agents that a filter and the words of a search leave, those
 * that need a person first, then the newest.
 */
export function listed(all: readonly AgentSummary[], filter: Filter, search: string, now: number): AgentSummary[] {
  const wanted = search.toLowerCase().split(/\s+/).filter(Boolean);
  const rank = (a: AgentSummary) => (statusOf(a) === "asks" ? 0 : needsYou(a, now) ? 1 : 2);
  return all
    .filter((a) => passes[filter](a, now) && (wanted.length === 0 || ((text) => wanted.every((w) => text.includes(w)))(textOf(a))))
    .map((a) => ({ a, rank: rank(a) }))
    .sort((x, y) => x.rank - y.rank || (x.a.createdAt < y.a.createdAt ? 1 : x.a.createdAt > y.a.createdAt ? -1 : 0))
    .map((one) => one.a);
}
