import type { Approval } from "../api/types";
import { idOf, minutesAgo } from "./agents";
import { boot, call, done, replied, type Bare } from "./journal";

const prompt = (text: string, mode?: string): Bare => ({ kind: "run.created", data: { prompt: { role: "user", blocks: [{ text }] }, ...(mode ? { mode } : {}) } });

const few = {
  title: "Guests",
  questions: [
    { id: "who", prompt: "Is a guest who signs in later to find the cart of before?", options: [{ id: "yes", label: "Yes, joined with the cart of the account" }, { id: "no", label: "No, it is dropped" }] },
    { id: "days", prompt: "For how long is it kept?", options: [] },
  ],
};
const where = {
  title: "Where carts are kept",
  questions: [{ id: "store", prompt: "There are two stores in use. In which are the carts of guests to be kept?", options: [{ id: "redis", label: "Redis, as sessions are" }, { id: "pg", label: "PostgreSQL" }] }],
};

const plan = {
  name: "Split the search service",
  overview: "Indexing gets a process of its own, so that a long import no longer slows searches down.",
  plan: "## What changes\n\n1. `src/search/index.ts` moves to **`services/indexer`**, with a queue between the two.\n2. Searches read from the index alone.\n\n```ts\nexport interface Queue {\n  put(change: Change): Promise<void>;\n}\n```\n\n## What stays\n\n| what | today | then |\n|---|---|---|\n| API | `/search` | the same |\n| index | in the process | on its own disk |\n\n## How it is checked\n\nThe load test of `bench/search` has to stay below 40 ms at the 99th percentile while an import runs.",
  todos: ["Write the queue", "Move the indexer", "Run the load test"].map((content, i) => ({ id: String(i), content, status: "pending" })),
};
const first = { ...plan, plan: "Rewrite the search in another language." };

const approvalOf = (n: number, callId: string, tool: string, minutes: number, more: Partial<Approval>): Approval => ({
  id: `apr-${n}`, agentId: idOf(n), runId: `run-${n}`, callId, tool, subject: "", why: "it waits for your answer", entries: [], askedAt: minutesAgo(minutes), ...more,
});

/** Questions that the demo's agents ask with AskQuestion. */
export const asks = (): Approval[] => [
  approvalOf(16, "pb1", "Shell", 10, { subject: publish, reason: "Build and publish", why: "no entry of your allowlist allows git push", entries: ["npm run build", "git push"] }),
  approvalOf(16, "pb2", "Shell", 10, { id: "apr-16-2", subject: long, reason: "Copy the files", why: "no entry of your allowlist allows cp", entries: ["cp", "rm"] }),
  approvalOf(16, "pb3", "PrManagement", 10, { id: "apr-16-3", subject: "pull request: Publish the release\ninto release\nas a draft", change: "## What changes\n\n- The bundle of the shop is built anew.\n- Old files are removed from `release/`.\n\nChecked by `npm test`.", why: "no entry of your allowlist allows PrManagement" }),
  approvalOf(16, "pb4", "Shell", 10, { id: "apr-16-4", subject: "rm -rf *", folder: "/srv/release/old", reason: "Remove old files", why: "no entry of your allowlist allows rm" }),
  approvalOf(13, "q2", "AskQuestion", 6, { subject: where.title, questions: where.questions }),
  approvalOf(14, "p2", "CreatePlan", 9, { subject: plan.name, reason: plan.overview, change: `${plan.plan}\n\n${plan.todos.map((t) => `- [ ] ${t.content}`).join("\n")}`, why: "it waits until you have decided on its plan" }),
];

/** A command that does not fit in a row, and one that does not fit in a card. */
const publish = "npm run build && npm test -- --run --reporter=dot && git add --all dist && git commit --message 'Release' && git push --force origin main";
const long = Array.from({ length: 40 }, (_, i) => `cp dist/${i}.js release/${i}.js`).join(" &&\n") + " &&\nrm -rf ~/backups";

/** An agent that asks for approval of two commands, both too long to be shown completely. */
export const publishing = (): Bare[] => [
  prompt("Publish the release."),
  ...boot,
  replied({ text: "The build is ready." }, call("pb1", "Shell", { command: publish, description: "Build and publish" }), call("pb2", "Shell", { command: long, description: "Copy the files" }), call("pb3", "PrManagement", { title: "Publish the release" }), call("pb4", "Shell", { command: "rm -rf *", working_directory: "/srv/release/old" })),
  ...asked(16),
];

const asked = (n: number): Bare[] => asks().filter((a) => a.agentId === idOf(n)).map((approval): Bare => ({ kind: "approval.asked", data: { approval } }));

/** An agent that has asked before and asks again. */
export const wondering = (): Bare[] => [
  prompt("Keep the carts of guests for a month."),
  ...boot,
  replied({ text: "Before I change the model I have to know two things." }, call("q1", "AskQuestion", few)),
  { kind: "call.sent", data: { callId: "q1" } },
  { kind: "call.done", data: { callId: "q1", text: "", durationMs: 240_000, output: { success: { answers: [{ questionId: "who", optionIds: ["yes"], text: "but keep the account's prices" }, { questionId: "days", text: "30 days" }] } } } },
  replied(call("q2", "AskQuestion", where)),
  { kind: "call.sent", data: { callId: "q2" } },
  ...asked(13),
];

/** An agent in plan mode whose first plan was rejected. */
export const planning = (): Bare[] => [
  prompt("Searches are slow while products are imported. Plan how to mend that.", "plan"),
  ...boot,
  replied(call("p0", "Grep", { pattern: "index(", path: "/workspace/src" })),
  ...done("p0", "", { output: "/workspace/src/search/index.ts:4:export function index(", lines: 1 }, 12),
  replied(call("p1", "CreatePlan", first)),
  { kind: "call.sent", data: { callId: "p1" } },
  { kind: "call.done", data: { callId: "p1", text: "The user did not approve the plan, and says: no rewrite, please", error: true, durationMs: 90_000 } },
  replied({ text: "Then with what is there." }, call("p2", "CreatePlan", plan)),
  { kind: "call.sent", data: { callId: "p2" } },
  ...asked(14),
];
