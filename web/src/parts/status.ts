import type { AgentSummary, Find } from "../api/types";
import { words } from "../words";
import { shownName } from "./clip";

export type Status = keyof typeof words.status;
export type Tone = "amber" | "red" | "green" | "blue" | "grey";

export const toneOf: Record<Status, Tone> = {
  asks: "amber", failed: "red", starting: "blue", working: "blue", paused: "amber", done: "green", stopped: "grey", expired: "red", archived: "grey", idle: "grey",
};

/** statusOf returns the status of an agent that is most important for a person. */
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

const fresh = 24 * 3600 * 1000; // how long a failure counts as new, in milliseconds

/** needsYou reports whether an agent waits for a person. */
export function needsYou(a: AgentSummary, now: number): boolean {
  const status = statusOf(a);
  return status === "asks" || ((status === "failed" || status === "expired") && now - Date.parse(a.updatedAt) < fresh);
}

/** The list's filters that need one click, as values of the API's status. */
export const standings = { all: "", asks: "asks", working: "working", failed: "failed", done: "finished,stopped", archived: "archived" } as const satisfies Record<keyof typeof words.agents.filter, string>;

const stands: Record<string, (a: AgentSummary, now: number) => boolean> = {
  "": (a) => a.status !== "ARCHIVED",
  asks: (a) => statusOf(a) === "asks",
  "needs-you": needsYou,
  working: (a) => a.status !== "ARCHIVED" && isOpen(a),
  finished: (a) => a.status !== "ARCHIVED" && a.runStatus === "FINISHED",
  failed: (a) => a.status !== "ARCHIVED" && (a.runStatus === "ERROR" || a.runStatus === "EXPIRED"),
  stopped: (a) => a.status !== "ARCHIVED" && a.runStatus === "CANCELLED",
  archived: (a) => a.status === "ARCHIVED",
};

/** repoName returns the last two parts of a repository's address: owner/name. */
export function repoName(url = ""): string {
  const path = url.replace(/^[a-z+]+:\/\/[^/]*\//i, "").replace(/^[^/]*@[^:/]*:/, "");
  return shownName(path.replace(/\.git$/, "").split("/").filter(Boolean).slice(-2).join("/"));
}

/** listed filters the agents that are already loaded, until the server has answered. */
export function listed(known: readonly AgentSummary[], find: Find, now = Date.now()): AgentSummary[] {
  const wanted = (find.search ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const some = (find.status ?? "").split(",");
  return known.filter((a) => {
    if (!some.some((s) => stands[s]?.(a, now))) return false;
    if (typeof find.user === "number" && a.userId !== find.user) return false;
    if (find.repository && !a.repos?.some((r) => r.url === find.repository)) return false;
    if ((find.from && a.createdAt < find.from) || (find.to && a.createdAt >= find.to)) return false;
    const text = [a.id, a.name, ...(a.repos ?? []).map((r) => r.url)].join(" ").toLowerCase();
    return wanted.every((w) => text.includes(w));
  });
}

/** asksFirst puts agents that wait for an answer, of any age, before the others. */
export function asksFirst(asking: readonly AgentSummary[], others: readonly AgentSummary[]): AgentSummary[] {
  const first = asking.filter((a) => statusOf(a) === "asks");
  const ids = new Set(first.map((a) => a.id));
  return [...first, ...others.filter((a) => !ids.has(a.id))];
}
