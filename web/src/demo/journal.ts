import type { Journal } from "../api/types";
import type { Block, Event } from "../journal/event";
import { Transcript } from "../journal/fold";
import { idOf } from "./agents";
import { delegating } from "./tasks";
import { twoWays } from "./names";
import { planning, publishing, wondering } from "./questions";

/** A sample's data. It contains only the fields that the dashboard shows. */
type Sample<T> = T extends (infer E)[] ? Sample<E>[] : T extends object ? { [K in keyof T]?: Sample<T[K]> } : T;
export type Bare = { [K in Event["kind"]]: { kind: K; data: Sample<Extract<Event, { kind: K }>["data"]>; wait?: number } }[Event["kind"]];

export const call = (id: string, name: string, args: unknown) => ({ call: { id, name, args } });
export const usage = { input: 1800, output: 420, cacheRead: 21_000, cacheWrite: 900, cost: 21_375_000, priced: 24_120 };

/** A sample screenshot, drawn as an SVG. */
export const picture = `<svg xmlns="http://www.w3.org/2000/svg" width="960" height="600" viewBox="0 0 320 200"><rect width="320" height="200" fill="#dfe7f2"/><rect y="0" width="320" height="28" fill="#3a5a8c"/><rect x="24" y="52" width="180" height="14" fill="#8fa3c0"/><rect x="24" y="80" width="272" height="90" rx="6" fill="#fff"/></svg>`;
export const replied = (...blocks: Sample<Block>[]): Bare => ({
  kind: "turn.replied", data: { message: { role: "assistant", blocks }, usage, model: "opus" },
});
export const done = (callId: string, text: string, success?: unknown, durationMs = 240): Bare[] => [
  { kind: "call.judged", data: { callId, treatment: "sandboxed", by: "policy" } },
  { kind: "call.sent", data: { callId } },
  { kind: "call.done", data: { callId, text, durationMs, ...(success ? { output: { success } } : {}) } },
];

export const editDiff = `--- a/src/outbox/deliver.ts
+++ b/src/outbox/deliver.ts
@@ -11,9 +11,16 @@ export async function deliver(item: Item): Promise<void> {
   const reply = await post(item.url, item.body);
-  if (!reply.ok) {
-    throw new Error("not delivered");
+  if (reply.ok) {
+    await outbox.done(item.id);
+    return;
   }
-  await outbox.done(item.id);
+  // Twice as long each time, up to an hour.
+  const wait = Math.min(10_000 * 2 ** item.attempts, 3_600_000);
+  await outbox.again(item.id, Date.now() + wait);
 }
`;

export const boot: Bare[] = [
  { kind: "run.started", data: {} },
  ...(["layer", "network", "checkout", "start", "terminals", "exec-daemon"].flatMap((name, i): Bare[] => [
    { kind: "boot.step", data: { name, state: "running" } },
    { kind: "boot.step", data: { name, state: "done", durationMs: [9, 31, 740, 120, 44, 61][i] ?? 0 } },
  ])),
  { kind: "machine.ready", data: {} },
];

const todos = (n: number) =>
  ["Find where deliveries are made", "Retry with backoff", "Test that nothing is sent twice", "Write it in the changelog"].map((content, i) => ({
    id: String(i), content, status: i < n ? "completed" : i === n ? "in_progress" : "pending",
  }));

export const inTask = (callId: string, events: readonly Bare[]): Bare[] => events.map(({ kind, data }) => ({ kind: "task.event", data: { callId, kind, data } }));

/** Two subagents: one has finished, one is working. */
const tasks: Bare[] = [
  replied(
    { text: "Two questions are independent of each other. I have subagents look." },
    call("t1", "Task", { description: "Find callers of deliver", prompt: "Who calls deliver()?", subagent_type: "explore" }),
    call("t2", "Task", { description: "How others bound retries", prompt: "Look at how the queue bounds its retries.", subagent_type: "explore", readonly: true }),
  ),
  ...["t1", "t2"].map((callId): Bare => ({ kind: "call.sent", data: { callId } })),
  { kind: "task.began", data: { callId: "t1", id: "t1", type: "explore", description: "Find callers of deliver", task: "Who calls deliver()? Name each with its line, and say which of them wait for it.", model: "haiku", readOnly: true } },
  { kind: "task.began", data: { callId: "t2", id: "t2", type: "explore", description: "How others bound retries", task: "Look at how the queue bounds its retries.", model: "haiku", readOnly: true } },
  ...inTask("t1", [
    replied(call("t1_0_0", "Grep", { pattern: "deliver\\(", path: "/workspace" }), call("t1_0_1", "Read", { path: "/workspace/src/outbox/worker.ts" })),
    ...done("t1_0_0", "", { output: "/workspace/src/outbox/worker.ts:22:    await deliver(item);\n/workspace/src/outbox/worker.ts:31:  for (const item of due) void deliver(item);", lines: 2 }, 24),
    ...done("t1_0_1", "    22|    await deliver(item);", undefined, 8),
    replied({ text: "Two callers, both in `src/outbox/worker.ts`:\n\n- line 22 waits for it;\n- line 31 does **not**: what fails there is lost." }),
  ]),
  { kind: "task.ended", data: { callId: "t1", status: "completed", durationMs: 6200, turns: 2, toolCalls: 2, usage } },
  { kind: "call.done", data: { callId: "t1", text: "Two callers, both in src/outbox/worker.ts", durationMs: 6200, output: { success: { answer: "Two callers" } } } },
  ...inTask("t2", [
    replied({ text: "I look for the queue's own tests first." }, call("t2_0_0", "Glob", { glob_pattern: "**/queue*.test.ts" })),
    { kind: "call.sent", data: { callId: "t2_0_0" } },
  ]),
];

/** A working agent that has used every tool. */
const working: Bare[] = [
  { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "Webhooks that fail are lost. Retry them with exponential backoff for a day, and make sure that nothing is sent twice after a crash." }, { image: { mediaType: "image/png" } }] } } },
  ...boot,
  replied(
    { thinking: { text: "Deliveries are made somewhere in the outbox. Before I change anything I want to see who calls `deliver`, and whether the id of a delivery is stable over retries." } },
    { text: "I'll look at how deliveries are made first." },
    call("c1", "Grep", { pattern: "deliver(", path: "/workspace/src" }),
    call("c2", "Read", { path: "/workspace/src/outbox/deliver.ts" }),
  ),
  ...done("c1", "", { output: "/workspace/src/outbox/deliver.ts:9:export async function deliver(item: Item): Promise<void> {\n/workspace/src/outbox/worker.ts:22:    await deliver(item);\n/workspace/src/outbox/worker.ts:31:  for (const item of due) void deliver(item);", lines: 3 }, 31),
  ...done("c2", "     9|export async function deliver(item: Item): Promise<void> {\n    10|  // one attempt, and no more\n    11|  const reply = await post(item.url, item.body);\n    12|  if (!reply.ok) {\n    13|    throw new Error(\"not delivered\");\n    14|  }\n    15|  await outbox.done(item.id);\n    16|}", undefined, 12),
  replied(call("c3", "TodoWrite", { merge: false, todos: todos(1) })),
  ...done("c3", "ok", { todos: todos(1) }, 2),
  replied(
    { text: "A failure throws, and **nobody** catches it. I'll record the attempt instead:\n\n1. a failed delivery is due again after `10 s`, then twice as long, up to an hour;\n2. its id stays the same, so that a receiver knows what it has;\n3. after a day it is given up.\n\n| attempt | after |\n|---|---|\n| 1 | 10 s |\n| 2 | 20 s |\n| 9 | 43 min |\n" },
    call("c4", "StrReplace", { path: "/workspace/src/outbox/deliver.ts", old_string: "throw", new_string: "again" }),
  ),
  ...done("c4", "edited", { path: "/workspace/src/outbox/deliver.ts", diff: editDiff }, 18),
  replied(call("c5", "Shell", { command: "npm test -- --run src/outbox", description: "run the unit tests of the outbox" })),
  ...done("c5", "", { exitCode: 1, stdout: "\u001b[1m RUN \u001b[0m v4.1\n\n \u001b[32m✓\u001b[0m deliver.test.ts \u001b[2m(4 tests)\u001b[0m \u001b[33m312ms\u001b[0m\n \u001b[31m✗ worker.test.ts > gives up after a day\u001b[0m\n   \u001b[31mAssertionError\u001b[0m: expected 'pending' to be 'failed'\n\n Tests  \u001b[1;31m1 failed\u001b[0m | \u001b[1;32m11 passed\u001b[0m (12)", stderr: "" }, 4_310),
  { kind: "model.retry", data: { reason: "overloaded", message: "the model is overloaded (529)", waitMs: 2000, attempt: 1 } },
  replied({ text: "One test fails: the clock of the worker is not the one that the test sets.\n\n```ts\nexport function givenUp(item: Item, now = clock.now()): boolean {\n  return now - item.createdAt > 24 * 3600 * 1000; // a day\n}\n```" }, call("c6", "WebFetch", { url: "https://docs.example.com/webhooks#retries" }), call("c7", "Glob", { glob_pattern: "**/*clock*" })),
  ...done("c6", "# Webhooks\n\nRetries…"),
  { kind: "call.judged", data: { callId: "c7", treatment: "run", by: "policy" } },
  { kind: "call.sent", data: { callId: "c7" } },
  { kind: "call.done", data: { callId: "c7", text: "no file matches", error: true, durationMs: 9 } },
  ...tasks,
  replied(call("c8", "Shell", { command: "npm test -- --run", description: "run all tests" })),
  { kind: "call.judged", data: { callId: "c8", treatment: "sandboxed", by: "policy" } },
  { kind: "call.sent", data: { callId: "c8" } },
  { kind: "call.delta", data: { callId: "c8", stdout: "\u001b[1m RUN \u001b[0m v4.1\n \u001b[32m✓\u001b[0m deliver.test.ts \u001b[2m(4 tests)\u001b[0m\n" } },
  { kind: "prompt.queued", data: { runId: "run-next", prompt: { role: "user", blocks: [{ text: "Then say in the changelog how long a delivery is retried." }] } } },
];

/** An agent that was rewound: the replaced part is folded. */
const retried: Bare[] = [
  { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "Translate the emails into Portuguese." }] } } },
  ...boot,
  replied({ text: "I'll translate all of them by one script." }, call("r1", "Shell", { command: "node translate.js --all", description: "translate everything" })),
  ...done("r1", "", { exitCode: 0, stdout: "41 files", stderr: "" }, 900),
  replied({ text: "Done: 41 files." }),
  { kind: "run.ended", data: { status: "FINISHED", result: "Done: 41 files." } },
  { kind: "agent.rewound", data: { to: 1, turn: 1 } },
  { kind: "notice", data: { text: "The user has rewound the conversation to this point: your 2 later turns are no longer part of it." } },
  { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "Translate the emails into Portuguese, each by hand, and check the placeholders." }, { image: { mediaType: "image/png" } }] } } },
  replied({ text: "One by one, then. The first is the welcome." }, call("r2", "Write", { path: "/workspace/mail/pt/welcome.txt", contents: "Bem-vindo, {name}!\n" })),
  ...done("r2", "written", { path: "/workspace/mail/pt/welcome.txt" }, 9),
  replied(call("v0", "RecordScreen", { mode: "START_RECORDING" })),
  ...done("v0", "[recording the desktop; end it with SAVE_RECORDING or DISCARD_RECORDING]", { mode: "START_RECORDING" }, 210),
  replied(call("v1", "RecordScreen", { mode: "SAVE_RECORDING", save_as_filename: "welcome" })),
  ...done("v1", "[saved as /opt/cursor/artifacts/welcome.mp4: 12.4 s, 48211 bytes]", { mode: "SAVE_RECORDING", filePath: "/opt/cursor/artifacts/welcome.mp4", durationMs: 12_400, sizeBytes: 48_211 }, 130),
  { kind: "run.ended", data: { status: "FINISHED", result: "One by one." } },
];

const asking: Bare[] = [
  { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "Move sessions to the new store." }] } } },
  ...boot,
  replied({ text: "The schema is ready. The migration has to run against the staging database." }, call("a1", "Shell", { command: "npx prisma migrate deploy --schema prisma/sessions.prisma", description: "apply the migration" })),
  { kind: "approval.asked", data: { approval: approval().approval } },
];

export function approval() {
  return {
    agentId: idOf(2),
    approval: {
      id: "apr-1", runId: "run-2", callId: "a1", tool: "Shell", subject: "npx prisma migrate deploy --schema prisma/sessions.prisma", reason: "The tables have to be there before the tests can run.",
      why: "the line is not on your allowlist", entries: ["npx prisma migrate deploy", "npx prisma generate"], askedAt: new Date(Date.now() - 4 * 60_000).toISOString(),
    },
  };
}

const failed: Bare[] = [
  { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "Upgrade to React 19 and mend what breaks." }] } } },
  ...boot,
  { kind: "machine.lost", data: { reason: "the machine used more memory than it has" } },
  { kind: "run.ended", data: { status: "ERROR", failure: { code: "model_unauthorized", message: "the model refused the key of the configuration: 401 invalid x-api-key", hint: "check api_key or api_key_env of the model in the server's configuration" } } },
];

/** An agent whose model is overloaded: the third attempt has just failed. */
const overloaded: Bare[] = [
  { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "Sort the imports." }] } } },
  ...boot,
  ...[1, 2, 3].map((attempt): Bare => ({ kind: "model.retry", data: { reason: "overloaded", message: "the model is overloaded (529)", waitMs: 3_600_000, attempt, attempts: 8 } })),
];

const limited: Bare[] = [
  { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "Find why the nightly job is slow, and mend it." }] } } },
  ...boot,
  replied({ text: "The job reads every order twice. I measure it first." }, call("l1", "Shell", { command: "make bench-nightly", description: "Measure the job" })),
  ...done("l1", "", { exitCode: 0, stdout: "nightly  41m12s\n", stderr: "" }, 2_472_000),
  { kind: "pushed", data: { branch: "aloft/nightly-job", commit: "91be07c4d2aa" } },
  { kind: "run.ended", data: { status: "EXPIRED", failure: { code: "limit_cost", message: "the run has used $5.02; its limit is $5.00", hint: "its work is saved; send a follow-up to continue with new or higher limits" } } },
];

const starting: Bare[] = [
  { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "Find why checkout is slow for large carts." }] } } },
  ...boot.slice(0, 5),
  { kind: "boot.step", data: { name: "checkout", state: "running", detail: "cloning https://git.example.com/acme/shop\nremote: Enumerating objects: 48112, done." } },
];

const evil = "<img src=x onerror=alert(8)>\u001b]0;evil\u0007\u001b[31m [x](javascript:alert(8)) \u202Egnp.exe\n" + "long ".repeat(20_000);

/** A hostile agent's output: the page must show all of it as text. */
const hostile: Bare[] = [
  { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "<script>alert('prompt')</script> \u202Eabc" }] } } },
  ...boot,
  replied(
    { text: "<img src=x onerror=\"alert(1)\"><svg onload=alert(2)></svg>\n\n[click](javascript:alert(3)) ![x](https://evil.example/track.png) <a href=\"javascript:alert(4)\">five</a>\n\n[data](data:text/html,<script>alert(5)</script>) [ok](https://example.com/)\n\n<style>body{display:none}</style>\n\n```html\n<script>alert(6)</script>\n```\n\n" + "> ".repeat(200) + "deep" },
    call("h1", "Shell", { command: "printf '\\e]0;evil\\a'", description: "<b>bold</b>" }),
    call("__proto__", "constructor", { path: "/workspace/a\nb<script>.ts" }),
  ),
  ...done("h1", "", { exitCode: 0, stdout: "\u001b]0;title\u0007\u001b[2J<script>alert(7)</script>\u001b]8;;https://evil.example\u001b\\link\u001b]8;;\u001b\\\n" + "x".repeat(3000) }),
  { kind: "call.done", data: { callId: "__proto__", text: "\u0000\u0007 odd", durationMs: 1 } },
  replied(
    call("h2", "Task", { description: evil, prompt: evil, subagent_type: evil }), call("h3", "CreatePlan", { name: evil, overview: evil, plan: evil, todos: [{ id: evil, content: evil, status: "<i>" }] }),
    call("h4", "AskQuestion", { title: evil, questions: [{ id: "q", prompt: evil, options: [{ id: evil, label: evil }] }] }), call("h5", "CallMcpTool", { server: evil, toolName: evil, arguments: { [evil]: evil } }),
    call("h6", "Read", { path: "/workspace/a.svg" }), call("h7", "Shell", { command: evil }),
    call("h9", "ComputerUse", { actions: [{ type: { text: evil } }, { key: { key: evil } }, { [evil]: evil }, { click: { coordinate: { x: evil, y: evil }, button: evil } }, ...Array<object>(1000).fill({ type: { text: evil } })] }),
  ),
  { kind: "task.began", data: { callId: "h2", id: "h2", type: evil, description: evil, task: evil, model: evil } },
  ...inTask("h2", [replied({ text: evil }, call("h2_0", evil, { path: evil })), ...done("h2_0", evil)]),
  ...done("h3", evil), ...done("h4", evil, { answers: [{ questionId: "q", optionIds: [evil], text: evil }] }), ...done("h5", evil, { [evil]: evil }), ...done("h6", "     1|<svg xmlns='http://www.w3.org/2000/svg' onload='alert(9)'><script>alert(9)</script></svg>"),
  { kind: "call.done", data: { callId: "h9", text: evil, error: true, durationMs: 1, output: { success: { actionsDone: 1, cursor: { x: evil, y: evil } } } } },
  replied(call("h8", "AskQuestion", { title: evil, questions: [] })),
  ...[{ id: "apr-h7", callId: "h7", tool: "Shell" }, { id: "apr-h8", callId: "h8", tool: "AskQuestion", questions: [{ id: "q", prompt: evil, options: [{ id: "a", label: evil }, { id: "b", label: "b".repeat(1 << 20) }] }] }].map(
    (one): Bare => ({ kind: "approval.asked", data: { approval: { runId: "run-9", subject: evil, reason: evil, change: evil, why: evil, entries: [evil], askedAt: "", ...one } as Sample<Extract<Event, { kind: "approval.asked" }>["data"]["approval"]> } }),
  ),
];

/** An agent whose user and model write Arabic around code. */
const arabic: Bare[] = [
  { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "اكتب اختبارات لصفحة الدفع.\nmake test && make lint\nThen push." }] } } },
  ...boot,
  replied({ text: twoWays }, call("ar1", "Shell", { command: "echo شكرا && npm test -- --run # نعم", description: "شغّل npm test -- --run" })),
  ...done("ar1", "", { exitCode: 0, stdout: "تم (12) ok\n", stderr: "" }),
  replied({ text: "تم." }, call("ar2", "Write", { path: "/workspace/src/دفع/.env.test", contents: "A=1\n" })),
  ...done("ar2", "written"),
  { kind: "run.ended", data: { status: "FINISHED", result: "تم." } },
];

/** An agent with very long output, and with characters that reverse the direction of text. */
function flood(): Bare[] {
  const wide = "w".repeat(10 << 20);
  const tall = "line of a file\n".repeat(100_000);
  return [
    { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: `Print a lot. \u202Egnp.exe ${"p".repeat(1 << 20)}` }] } } },
    ...boot,
    replied(
      { text: `# ${wide}` }, { text: tall },
      call("f1", "Shell", { command: `printf '\u202E${"c".repeat(1 << 20)}'`, description: "print \u202E a line of ten million" }),
      call("f2", "Shell", { command: "yes" }), call("f3", "Write", { path: "/workspace/a\nb\u202E.ts", contents: tall }), call("f4", "Write", { path: "/workspace/wide.ts", contents: wide }),
      call("f5", "Read", { path: "/workspace/wide.ts" }), call("f6", "Grep", { pattern: "w" }), call("f7", "Fetch", { url: wide.slice(0, 1 << 20) }),
    ),
    ...done("f1", "", { exitCode: 1, stdout: wide, stderr: "" }), ...done("f2", "", { exitCode: 1, stdout: tall, stderr: "" }), ...done("f3", ""), ...done("f4", ""),
    ...done("f5", `     1|${wide}`), ...done("f6", "", { output: `/workspace/a:1:${wide}` }), ...done("f7", wide),
    { kind: "run.ended", data: { status: "FINISHED", result: wide } },
  ];
}

/** A long journal with the given number of events. */
function long(events: number): Bare[] {
  const out: Bare[] = [{ kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "Go on for as long as it takes." }] } } }, ...boot];
  for (let i = 0; out.length < events; i++) {
    out.push(...["Look", "ing at ", "the next", " file."].map((text): Bare => ({ kind: "text.delta", data: { text } })));
    out.push(replied({ text: "Looking at the next file." }, call(`l${i}`, "Shell", { command: `make check-${i}`, description: `check number ${i}` })));
    out.push(...done(`l${i}`, "", { exitCode: 0, stdout: `ok ${i}\n`.repeat(5), stderr: "" }));
  }
  out.push({ kind: "run.ended", data: { status: "FINISHED", result: "done" } });
  return out;
}

/** An agent that sets up a machine and has not finished. */
const settingUp: Bare[] = [
  { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "Find out how to set up a machine for this repository, and propose an environment." }] } } },
  ...boot,
  replied({ text: "The README asks for Node 20, libvips and a PostgreSQL. I install them, and see whether the tests pass." }, call("s1", "Shell", { command: "sudo apt-get install -y libvips-dev postgresql && npm ci", description: "Install what the README names" })),
  ...done("s1", "", { exitCode: 0, stdout: "Setting up libvips-dev (8.14.1-3) ...\nadded 412 packages in 14s\n", stderr: "" }, 24_000),
];
const setUp: Bare[] = [
  ...settingUp,
  replied({ text: "Now the tests." }, call("s2", "Shell", { command: "sudo service postgresql start && npm test", description: "Run the tests" })),
  ...done("s2", "", { exitCode: 0, stdout: "Tests  212 passed (212)\n", stderr: "" }, 9_000),
  replied({ text: "I propose `.aloft/environment.json`: it installs libvips and the packages, starts PostgreSQL, and runs the development server in a terminal. All 212 tests passed. **Missing**: the token of the image service, `IMAGES_TOKEN`, as a secret; its tests are skipped without." }),
  { kind: "pushed", data: { branch: "aloft/find-out-how-a-machine", commit: "4f1c2ab09d3e" } },
  { kind: "run.ended", data: {
    status: "FINISHED", result: "I propose .aloft/environment.json.", outcome: "partly",
    evidence: { rounds: 4, checks: [{ command: "npm test", state: "passed", exitCode: 0, durationMs: 9_000, output: "Tests  212 passed (212)\n" }, { command: "npm run lint", state: "failed", exitCode: 1, durationMs: 2_000, output: "src/outbox/deliver.ts:41  error  'now' is never reassigned  prefer-const\n" }] },
  } },
];

const journals: Record<string, () => Bare[]> = {
  [idOf(1)]: () => working, [idOf(2)]: () => asking, [idOf(13)]: () => wondering(), [idOf(14)]: () => planning(), [idOf(16)]: () => publishing(), [idOf(17)]: () => overloaded, [idOf(5)]: () => retried, [idOf(6)]: () => delegating(), [idOf(12)]: () => flood(), [idOf(3)]: () => failed, [idOf(15)]: () => limited, [idOf(4)]: () => starting, [idOf(8)]: () => arabic, [idOf(9)]: () => hostile, [idOf(51)]: () => setUp, [idOf(52)]: () => settingUp, [idOf(10)]: () => long(10_000), [idOf(101)]: () => long(1_000), [idOf(102)]: () => long(100_000),
};

const kept = new Map<string, Event[]>();
const summaries = new Map<string, Journal>();

/** The journal of one of the demo's agents. */
export function journalOf(id: string): Event[] {
  const events = kept.get(id) ?? made(id);
  kept.set(id, events);
  return events;
}

/** The server's summary of the journal. */
export function summary(id: string): Journal {
  const before = summaries.get(id);
  if (before) return before;
  const events = journalOf(id);
  const t = new Transcript(id);
  events.forEach((e) => t.add(e));
  const { input, output, cacheRead, cacheWrite, cost, priced } = t.tokens;
  const total = input + output + cacheRead + cacheWrite;
  const out: Journal = {
    head: events.length, counted: events.length, turns: t.turns, branch: t.branch, todos: t.todos, queue: [],
    usage: { inputTokens: input, outputTokens: output, cacheReadTokens: cacheRead, cacheWriteTokens: cacheWrite, totalTokens: total, costUsd: cost / 1e9, unpricedTokens: total - priced },
    run: { id: t.runId, status: t.working ? "RUNNING" : "FINISHED", createdAt: t.started, ...(t.ended ? { endedAt: t.ended } : {}) },
  };
  summaries.set(id, out);
  return out;
}

function made(id: string): Event[] {
  const bare = (journals[id] ?? (() => [...working.slice(0, 30), { kind: "pushed", data: { branch: "aloft/retry-webhooks", commit: "4f1c2ab09d3e" } }, { kind: "run.ended", data: { status: "FINISHED", result: "Done." } } as Bare]))();
  const began = Date.now() - 14 * 60_000;
  return bare.map((e, i) => ({ seq: i + 1, runId: `run-${id.slice(3)}`, time: new Date(began + i * 4_000).toISOString(), kind: e.kind, data: e.data }) as Event);
}

export const branchDiff = `diff --git a/CHANGELOG.md b/CHANGELOG.md
index 1111111..2222222 100644
--- a/CHANGELOG.md
+++ b/CHANGELOG.md
@@ -1,4 +1,5 @@
 # Changelog
 
+- Webhooks that fail are sent again for a day.
 - Carts keep their coupons.
 - Faster search.
diff --git a/src/outbox/deliver.ts b/src/outbox/deliver.ts
index 3333333..4444444 100644
${editDiff}@@ -40,4 +47,9 @@ function post(url: string, body: string) {
   return fetch(url, { method: "POST", body });
 }
 
+/** Whether a delivery is so old that it is given up. */
+export function givenUp(item: Item, now = clock.now()): boolean {
+  return now - item.createdAt > 24 * 3600 * 1000;
+}
+
 export const timeout = 10_000;
diff --git a/src/outbox/deliver.test.ts b/src/outbox/deliver.test.ts
new file mode 100644
index 0000000..5555555
--- /dev/null
+++ b/src/outbox/deliver.test.ts
@@ -0,0 +1,6 @@
+import { expect, test } from "vitest";
+import { givenUp } from "./deliver";
+
+test("a day, and no more", () => {
+  expect(givenUp({ createdAt: 0 }, 24 * 3600 * 1000 + 1)).toBe(true);
+});
diff --git a/docs/diagram.png b/docs/diagram.png
deleted file mode 100644
index 6666666..0000000
Binary files a/docs/diagram.png and /dev/null differ
`;

/** A diff of two files of 25,000 lines each. */
export function longDiff(): string {
  const n = 25_000;
  const file = (path: string) => {
    const lines = Array.from({ length: n }, (_, i) => `+export const line${i} = ${i} * ${i % 7}; ${i % 50 ? "" : "// " + "as wide as it takes ".repeat(8)}\n`);
    return `diff --git a/${path} b/${path}\nnew file mode 100644\n--- /dev/null\n+++ b/${path}\n@@ -0,0 +1,${n} @@\n${lines.join("")}`;
  };
  return file("src/first.ts") + file("src/second.ts");
}
