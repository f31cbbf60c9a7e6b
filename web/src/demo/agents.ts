import type { AgentSummary, PullRequest } from "../api/types";

/** The time n minutes ago. */
export const minutesAgo = (n: number) => new Date(Date.now() - n * 60_000).toISOString();

export const idOf = (n: number) => `bc-00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;

const repo = (name: string) => [{ url: `https://git.example.com/${name}` }];

const pull = (number: number, title: string, more: Partial<PullRequest> = {}): PullRequest[] => [
  { repoUrl: "git.example.com/acme/shop", branch: "aloft/retry-webhooks", base: "main", url: `https://git.example.com/acme/shop/pulls/${number}`, number, title, state: "open", ...more },
];

function agent(n: number, name: string, minutes: number, more: Partial<AgentSummary>): AgentSummary {
  const id = idOf(n);
  return {
    id, userId: 1, name, status: "ACTIVE", env: { type: "cloud" }, url: `http://localhost/agents/${id}`, createdAt: minutesAgo(minutes + 20), updatedAt: minutesAgo(minutes),
    latestRunId: `run-${id.slice(3)}`, repos: repo("acme/shop"), ...more,
  };
}

const first: AgentSummary[] = [
  agent(1, "Retry failed webhooks with backoff", 0, { runStatus: "RUNNING", machine: "ready", doing: "Shell run the unit tests of the outbox" }),
  agent(2, "Move sessions to the new store", 4, { runStatus: "RUNNING", machine: "ready", waitingApprovals: 1, doing: "Shell npx prisma migrate deploy", repos: repo("acme/accounts") }),
  agent(13, "Keep carts of guests for a month", 6, { runStatus: "RUNNING", machine: "ready", waitingApprovals: 1, doing: "AskQuestion Where carts are kept" }),
  agent(14, "Split the search service", 9, { runStatus: "RUNNING", machine: "ready", waitingApprovals: 1, doing: "CreatePlan Split the search service", repos: repo("acme/search") }),
  agent(16, "Publish the release", 10, { runStatus: "RUNNING", machine: "ready", waitingApprovals: 1, doing: "Shell npm run build" }),
  agent(17, "Sort the imports", 1, { runStatus: "RUNNING", machine: "ready", doing: "asking the model again" }),
  agent(3, "Upgrade to React 19", 11, { runStatus: "ERROR", doing: "the model refused the key of the configuration: 401 invalid x-api-key", repos: repo("acme/web") }),
  agent(4, "Find why checkout is slow for large carts", 1, { runStatus: "CREATING", machine: "booting", doing: "starting the machine: checkout" }),
  agent(5, "Translate the emails into Portuguese and check all of the placeholders in the templates of every language", 32, { runStatus: "FINISHED", machine: "hibernated", repos: repo("acme/mail"), pullRequests: pull(40, "Translate the emails into Portuguese", { repoUrl: "git.example.com/acme/mail", branch: "aloft/portuguese", state: "merged" }) }),
  agent(6, "Write tests for the tax rules", 55, { runStatus: "RUNNING", paused: true, machine: "ready", doing: "Edit src/tax/rules.ts", repos: repo("acme/tax") }),
  agent(7, "Delete dead feature flags", 96, { runStatus: "CANCELLED", repos: repo("acme/web"), pullRequests: pull(39, "Delete dead feature flags", { repoUrl: "git.example.com/acme/web", state: "closed" }) }),
  agent(8, "اكتب اختبارات لصفحة الدفع", 130, { runStatus: "FINISHED", pullRequests: pull(41, "اختبارات لصفحة الدفع") }),
  agent(9, "<img src=x onerror=alert(1)>", 180, { runStatus: "FINISHED", machine: "ready", doing: "", pullRequests: pull(44, "<img src=x onerror=alert(1)>", { url: "javascript:alert(1)" }) }),
  agent(10, "Pin the base image", 1500, { runStatus: "EXPIRED", repos: repo("acme/infra") }),
  agent(15, "Find why the nightly job is slow", 190, { runStatus: "EXPIRED", machine: "ready", doing: "the run has used $5.02; its limit is $5.00", repos: repo("acme/infra") }),
  agent(12, "Print a lot", 8000, { runStatus: "FINISHED" }),
  agent(11, "Old experiment with the queue", 9000, { runStatus: "FINISHED", status: "ARCHIVED" }),
];

const verbs = ["Fix", "Speed up", "Document", "Refactor", "Test", "Remove", "Port"];
const things = ["the importer", "login on Safari", "flaky tests of the cart", "the search index", "rate limits", "the invoice PDF", "CSV export", "the nightly job"];

/** Pull requests in every state, by the number of the agent. */
const pulled: Record<number, Partial<AgentSummary>> = {
  103: { repos: repo("acme/shop"), pullRequests: [{ repoUrl: "git.example.com/acme/shop", branch: "aloft/retry-webhooks", base: "main", error: { code: "forge_no_token", message: "there is no token for git.example.com (add one to git.credentials in the configuration)" } }] },
  105: { repos: repo("acme/shop"), pullRequests: pull(42, "Test the tax rules, and the rounding of what a cart with nothing but coupons in it comes to in every currency") },
  106: { repos: [...repo("acme/shop"), ...repo("acme/web"), ...repo("acme/infra")], pullRequests: [...pull(43, "Port flaky tests of the cart", { draft: true }), ...pull(46, "Port flaky tests", { repoUrl: "git.example.com/acme/web" })] },
};

/** Five thousand agents; only the first few have journals of their own. */
export const agents: AgentSummary[] = [
  ...first,
  ...Array.from({ length: 4987 }, (_, i) =>
    agent(100 + i, `${verbs[i % verbs.length]} ${things[i % things.length]}`, 200 + i * 7, {
      runStatus: i % 9 === 4 ? "CANCELLED" : "FINISHED",
      repos: repo(["acme/shop", "acme/web", "acme/infra", "acme/mail"][i % 4] ?? "acme/shop"),
      ...pulled[100 + i],
    }),
  ),
];

/** Machines that people and agents are setting up. */
export const setUps = [
  agent(50, "Set up shop", 3, { runStatus: "FINISHED", machine: "ready", env: { type: "cloud", preset: "setup" } }),
  agent(51, "Set up search", 6, { runStatus: "FINISHED", machine: "hibernated", repos: repo("acme/search"), env: { type: "cloud", preset: "vmSetupHelper" } }),
  agent(52, "Set up mail", 1, { runStatus: "RUNNING", machine: "ready", doing: "Shell npm ci", repos: repo("acme/mail"), env: { type: "cloud", preset: "vmSetupHelper" } }),
];
