import { Failure } from "../api/transport";
import type { CreatePullRequest, ProposedPullRequest, PullRequest, PullRequestStatus } from "../api/types";
import { agents, idOf } from "./agents";

type Check = PullRequestStatus["checks"][number];
const check = (name: string, state: Check["state"], summary = ""): Check => ({ name, state, url: "https://git.example.com/acme/shop/checks/1", ...(summary ? { summary } : {}) });

/** The forge's data about pull requests, by number. */
const more: Record<number, Partial<PullRequestStatus>> = {
  41: { review: "approved", checksState: "success", checks: [check("build", "success"), check("test", "success")] },
  42: { review: "changes_requested", openThreads: 2, checksState: "failure", checks: [check("build", "success"), check("test (node 22)", "failure", "2 of 318 tests failed: keeps coupons, rounds taxes of a cart with nothing in it"), check("lint", "pending"), check("coverage", "neutral")] },
  43: { checksState: "pending", checks: [check("build", "pending")] },
  44: { checksState: "success", checks: [{ name: "<b onmouseover=alert(1)>", state: "success", url: "javascript:alert(1)", summary: "\u202Eevil" }] },
  46: { unseen: { code: "forge_rate_limited", message: "git.example.com asks to wait (try again in 12 minutes)" } },
};

const of = (id: string) => agents.find((a) => a.id === id);

/** An agent's pull requests, in their current state on the forge. */
export const standings = (id = "") => ({ items: of(id)?.pullRequests?.map((p) => ({ ...p, checks: [], ...more[p.number ?? 0] })) ?? [] });

/** The title and text that the server proposes for a pull request. */
export const proposedPull = (id = ""): ProposedPullRequest => ({
  repoUrl: "git.example.com/acme/shop", branch: "aloft/retry-webhooks", base: "main", title: "outbox: retry failed webhooks with backoff",
  body: `Deliveries that fail are tried again after 1, 4 and 16 minutes, with the id that they had.\n\nCommits:\n\n- outbox: retry failed webhooks with backoff\n- outbox: test that the id stays\n\n---\nMade by the agent [${of(id)?.name ?? ""}](https://aloft.example.com/agents/${id}).`,
});

/** Opens a pull request. For one agent it fails, since the forge has no token. */
export function openPull(id = "", body: unknown): PullRequest {
  const { repoUrl = "", title, base, draft } = body as CreatePullRequest;
  const agent = of(id);
  if (!agent) throw new Failure(404, "not_found", "no agent of this id");
  if (id === idOf(103)) throw new Failure(409, "forge_no_token", "there is no token for git.example.com (add one to git.credentials in the configuration)");
  const opened: PullRequest = {
    repoUrl, branch: "aloft/retry-webhooks", base: base ?? "main", url: "https://git.example.com/acme/shop/pulls/48", number: 48, title: title ?? "Retry failed webhooks with backoff", state: "open", draft: draft ?? false,
  };
  agent.pullRequests = [...(agent.pullRequests ?? []).filter((p) => p.repoUrl !== repoUrl), opened];
  return opened;
}
