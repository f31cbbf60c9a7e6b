import type { Agent, AgentSummary, CreatePullRequest, ProposedPullRequest, PullRequest, PullRequestStatus } from "../api/types";

export type Tone = "green" | "grey" | "violet" | "red" | "amber";
type Stand = "open" | "draft" | "merged" | "closed";

/** The state of a pull request, with drafts as a separate state. */
export function standOf(p: Pick<PullRequest, "state" | "draft">): Stand {
  const state = p.state ?? "open";
  return state === "open" && p.draft ? "draft" : state;
}

export const toneOfPull: Record<Stand, Tone> = { open: "green", draft: "grey", merged: "violet", closed: "red" };
export const toneOfCheck: Record<PullRequestStatus["checks"][number]["state"], Tone> = { success: "green", failure: "red", pending: "amber", neutral: "grey" };

export const toneOfReview: Record<NonNullable<PullRequestStatus["review"]>, Tone> = { approved: "green", changes_requested: "red" };

/** opened returns an agent's existing pull requests: a failed attempt to open one has no URL. */
export const opened = (a: Pick<AgentSummary, "pullRequests">) => a.pullRequests?.filter((p) => p.url) ?? [];

/**
 * address returns url if it may be used in a link. It comes from a forge or an agent, and must not
 * be a script.
 */
export const address = (url = "") => (/^https?:\/\//i.test(url) ? url : undefined);

/** A repository of an agent, and the pull request of a branch there. */
export type Row = { repo: string; pull?: PullRequest & Partial<PullRequestStatus> };

const bare = (url: string) => url.replace(/^[a-z+]+:\/\//i, "");
const placeOf = (p: PullRequest) => `${bare(p.repoUrl)}\n${p.branch}`;

/**
 * rowsOf returns a row for each pull request, and one for each repository without a pull request.
 * made are the pull requests opened on this page, seen the latest states on the forge.
 */
export function rowsOf(agent: Pick<Agent, "repos" | "pullRequests">, made: readonly PullRequest[] = [], seen: readonly PullRequestStatus[] = []): Row[] {
  const all = new Map<string, NonNullable<Row["pull"]>>();
  for (const p of [...(agent.pullRequests ?? []), ...made]) {
    const before = all.get(placeOf(p));
    if (!before?.url || p.url) all.set(placeOf(p), p);
  }
  for (const p of seen) {
    const known = all.get(placeOf(p));
    if (known && known.url === p.url) all.set(placeOf(p), p);
  }
  const pulls = [...all.values()];
  const repos = [...new Set((agent.repos ?? []).flatMap((r) => (r.url ? [r.url] : [])))];
  return [
    ...repos.flatMap((repo): Row[] => {
      const own = pulls.filter((p) => bare(p.repoUrl) === bare(repo));
      return own.length > 0 ? own.map((pull) => ({ repo, pull })) : [{ repo }];
    }),
    ...pulls.filter((p) => !repos.some((r) => bare(r) === bare(p.repoUrl))).map((pull) => ({ repo: pull.repoUrl, pull })),
  ];
}

/** The fields that the user has edited; others are absent. */
export type PullForm = { title?: string; body?: string; base?: string; draft: boolean };

/**
 * pullRequestOf returns the request for a form. It omits fields that are empty or as proposed, so
 * that the server writes them and updates them after follow-ups.
 */
export function pullRequestOf(repoUrl: string, f: PullForm, proposed?: ProposedPullRequest): CreatePullRequest {
  const out: CreatePullRequest = { repoUrl };
  for (const field of ["title", "body", "base"] as const) {
    const text = field === "body" ? f.body : f[field]?.trim();
    if (text?.trim() && text !== proposed?.[field]) out[field] = text;
  }
  if (f.draft) out.draft = true;
  return out;
}
