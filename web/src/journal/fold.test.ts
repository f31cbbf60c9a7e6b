import { expect, test } from "vitest";
import type { Event } from "./event";
import { idOf } from "../demo/agents";
import { journalOf, summary } from "../demo/journal";
import type { Entry } from "./entry";
import { settled, Transcript } from "./fold";

/** An event without the fields that `told` fills in. */
type Told = { kind: string; data: unknown };

function told(...events: Told[]): Transcript {
  const t = new Transcript("bc-1");
  events.forEach((e, i) => t.add({ seq: i + 1, runId: "run-1", time: `2030-01-01T00:00:${String(i).padStart(2, "0")}Z`, ...e } as Event));
  return t;
}
const usage = { input: 1, output: 2, cacheRead: 3, cacheWrite: 4 };
const prompt = { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "go" }, { image: { mediaType: "image/png" } }] } } } as const;
const reply = (...blocks: object[]) => ({ kind: "turn.replied", data: { message: { role: "assistant", blocks }, usage, model: "m" } }) as Told;
const texts = (t: Transcript) => t.entries.map((e: Entry) => ("text" in e ? `${e.kind} ${e.text}` : e.kind));

test("a reply takes the place of its pieces, and keeps their rows", () => {
  const t = told(prompt, { kind: "thinking.delta", data: { text: "h" } }, { kind: "text.delta", data: { text: "Hel" } });
  const [, thinking, text] = t.entries;
  expect(text).toMatchObject({ live: true });
  t.add({ seq: 4, time: "", ...reply({ thinking: { text: "hm" } }, { text: "Hello" }, { call: { id: "c", name: "Shell", args: { command: "ls" } } }) } as Event);
  expect(texts(t)).toEqual(["prompt go", "thinking hm", "text Hello", "call", "turn"]);
  expect(t.entries[1]).toBe(thinking);
  expect(t.entries[2]).toBe(text);
  expect(t.entries[2]).toMatchObject({ live: false });
  expect(t.tokens).toEqual({ ...usage, cost: 0, priced: 0 });
});

test("a reply that was cut off leaves nothing behind", () => {
  const t = told(prompt, { kind: "text.delta", data: { text: "false start" } }, { kind: "model.retry", data: { reason: "overloaded", waitMs: 1, attempt: 1 } }, reply({ text: "right" }));
  expect(texts(t)).toEqual(["prompt go", "note overloaded", "text right", "turn"]);
});

test("attempts that fail one after the other are one line, which says how many and when", () => {
  const retry = (attempt: number) => ({ kind: "model.retry", data: { reason: "overloaded", message: "overloaded (529)", waitMs: 12_000, attempt, attempts: 8 } }) as Told;
  const t = told(prompt, retry(1), { kind: "text.delta", data: { text: "cut" } }, retry(2), retry(3));
  expect(texts(t)).toEqual(["prompt go", "note overloaded (529)"]);
  expect(t.entries[1]).toMatchObject({ again: { attempt: 3, attempts: 8, next: Date.parse("2030-01-01T00:00:16Z") } });
  t.add({ seq: 6, time: "", ...reply({ text: "right" }) } as Event);
  expect(t.entries[1]).toMatchObject({ again: { attempt: 3, next: 0 } });
  t.add({ seq: 7, time: "2030-01-01T00:01:00Z", ...retry(1) } as Event);
  expect(texts(t)).toEqual(["prompt go", "note overloaded (529)", "text right", "turn", "note overloaded (529)"]);
});

test("a follow-up of the server says that it comes from the pull request", () => {
  const t = told(prompt, { kind: "run.created", data: { ...prompt.data, by: "pull_request" } });
  expect(t.entries.map((e) => e.kind === "prompt" && e.fromPull === true)).toEqual([false, true]);
});

test("an event that is told twice counts once", () => {
  const t = told(prompt, { kind: "text.delta", data: { text: "a" } });
  t.add({ seq: 2, time: "", kind: "text.delta", data: { text: "a" } });
  expect(texts(t)).toEqual(["prompt go", "text a"]);
});

test("a run that ends tells calls that it cut off from calls that never started", () => {
  const call = (id: string) => ({ call: { id, name: "Shell", args: {} } });
  const on = (kind: string, callId: string) => ({ kind, data: { callId } }) as Told;
  const ended = { kind: "run.ended", data: { status: "CANCELLED" } } as Told;
  const t = told(prompt, reply(call("running"), call("back"), call("unsent")), on("call.sent", "running"), on("call.sent", "back"), on("call.returned", "back"), ended);
  const states = t.entries.flatMap((e) => (e.kind === "call" ? [`${e.call.id} ${e.call.state}`] : []));
  expect(states).toEqual(["running cut", "back unstarted", "unsent unstarted"]);
});

test("a call goes its way", () => {
  const call = (t: Transcript) => {
    const e = t.entries.find((one) => one.kind === "call");
    return e?.kind === "call" ? e.call : undefined;
  };
  const asked = [prompt, reply({ call: { id: "c", name: "Shell", args: "no object" } })];
  expect(call(told(...asked))).toMatchObject({ state: "waiting", args: { arguments: "no object" } });
  const question = { kind: "approval.asked", data: { approval: { id: "q", runId: "run-1", callId: "c", tool: "Shell", subject: "ls", why: "", askedAt: "" } } };
  expect(call(told(...asked, question))).toMatchObject({ state: "asks", approval: { id: "q", agentId: "bc-1", entries: [] } });
  const own = { kind: "approval.asked", data: { approval: { id: "q", runId: "run-1", callId: "c", tool: "AskQuestion", subject: "", why: "", askedAt: "", questions: [{ id: "w", prompt: "In words?" }] } } };
  expect(told(...asked, question).asked()).toBeUndefined();
  expect(told(...asked, own).asked()).toMatchObject({ id: "q", questions: [{ id: "w", options: [] }] });
  const left = told(...asked, own, { kind: "approval.answered", data: { approvalId: "q", decision: "deny" } } as Told);
  expect([call(left)?.state, left.asked()]).toEqual(["waiting", undefined]); // the result arrives
  const answered = (decision: string) => ({ kind: "approval.answered", data: { approvalId: "q", decision } }) as Told;
  expect(call(told(...asked, question, answered("deny")))?.state).toBe("refused");
  expect(call(told(...asked, question, answered("allow_once")))).toMatchObject({ state: "waiting" });
  const run = [{ kind: "call.sent", data: { callId: "c" } }, { kind: "call.delta", data: { callId: "c", stdout: "a", stderr: "b" } }] as Told[];
  expect(call(told(...asked, ...run))).toMatchObject({ state: "running", output: "ab" });
  expect(call(told(...asked, ...run, { kind: "call.done", data: { callId: "c", text: "ab", durationMs: 3 } }))).toMatchObject({ state: "done", ms: 3 });
  expect(call(told(...asked, ...run, { kind: "run.ended", data: { status: "CANCELLED" } }))?.state).toBe("cut");
  expect(told({ kind: "call.done", data: { callId: "unknown", text: "", durationMs: 0 } }).entries).toEqual([]);
});

test("boot steps are one entry for each boot", () => {
  const t = told(
    prompt,
    { kind: "boot.step", data: { name: "checkout", state: "running" } },
    { kind: "boot.step", data: { name: "checkout", state: "done", durationMs: 5 } },
    { kind: "machine.ready", data: {} },
    { kind: "run.ended", data: { status: "ERROR", failure: { code: "x", message: "why" } } },
    prompt,
    { kind: "boot.step", data: { name: "checkout", state: "failed", detail: "no" } },
  );
  expect(t.entries.map((e) => e.kind)).toEqual(["prompt", "boot", "end", "prompt", "boot"]);
  expect(t.entries[1]).toMatchObject({ done: true, steps: [{ name: "checkout", state: "done", ms: 5 }] });
  expect(t.entries[2]).toMatchObject({ status: "ERROR", code: "x", message: "why", ms: 4000 });
});

test("kinds that are not known pass by", () => {
  expect(told({ kind: "of.the.future", data: {} }).entries).toEqual([]);
});

test("ten thousand events fold in no time", () => {
  const t = new Transcript();
  const began = performance.now();
  for (let i = 1; i <= 10_000; i++) t.add({ seq: i, time: "", kind: "text.delta", data: { text: "x" } });
  expect(performance.now() - began).toBeLessThan(1_000);
});

test("a machine that is about to be removed is warned of, with the time", () => {
  const at = "2030-01-02T00:00:00Z";
  const t = told(prompt, { kind: "machine.expiring", data: { at } }, { kind: "machine.expired", data: {} });
  expect(t.entries.slice(1)).toMatchObject([{ kind: "note", about: "expiring", text: new Date(at).toLocaleString() }, { kind: "note", about: "expired" }]);
});

test("what is gone back from is folded away, and the list of what is to do with it", () => {
  const todo = (id: string, status: string) => [reply({ call: { id, name: "TodoWrite", args: {} } }), { kind: "call.done", data: { callId: id, text: "", durationMs: 1, output: { success: { todos: [{ id: "1", content: "x", status }] } } } }] as Told[];
  const t = told(prompt, ...todo("a", "pending"), ...todo("b", "completed"), { kind: "run.ended", data: { status: "FINISHED" } }, { kind: "agent.rewound", data: { to: 4, turn: 2 } });
  expect(t.entries.map((e) => e.kind)).toEqual(["prompt", "call", "turn", "replaced"]);
  expect(t.entries.at(-1)).toMatchObject({ turns: 1, entries: [{ kind: "call" }, { kind: "turn", no: 2 }, { kind: "end" }] });
  expect(t.todos).toMatchObject([{ status: "pending" }]);
  expect(t.tokens.output).toBe(4); // its tokens were used nevertheless
});

test("prompts wait until they are taken back or begin", () => {
  const queued = (runId: string) => ({ kind: "prompt.queued", data: { runId, prompt: { role: "user", blocks: [{ text: runId }, { image: { mediaType: "image/png" } }] } } }) as Told;
  const t = told(prompt, queued("run-2"), queued("run-3"), queued("run-4"), { kind: "prompt.unqueued", data: { runId: "run-3" } });
  expect(t.queue).toMatchObject([{ runId: "run-2", images: [{ seq: 2, n: 0 }] }, { runId: "run-4" }]);
  t.add({ seq: 6, time: "", runId: "run-2", ...prompt } as unknown as Event);
  expect(t.queue.map((q) => q.runId)).toEqual(["run-4"]);
});

test("a transcript from the middle on says what the whole does", () => {
  for (const id of [1, 2, 3, 5, 10].map(idOf)) {
    const events = journalOf(id);
    const whole = new Transcript(id);
    events.forEach((e) => whole.add(e));
    for (const cut of [0, 3, 11, 20, 30, events.length - 3]) {
      const part = Transcript.of(id, summary(id), settled(events.slice(cut)));
      const { tokens, turns, model, runId, todos, working, started, ended, branch } = whole;
      expect(part).toMatchObject({ tokens, turns, runId, todos, working, started, ended, branch, ...(part.entries.some((e) => e.kind === "turn") ? { model } : {}) });
      if (part.entries.length === 0 || part.entries[0]?.kind === "replaced") continue;
      const faces = (t: Transcript) => t.entries.map((e) => [e.key, e.kind, "text" in e ? e.text : "", e.kind === "turn" ? e.no : e.kind === "call" ? e.call.state : ""]);
      const mine = faces(part).slice(1); // of the first only the rest may be here
      expect(mine).toEqual(mine.length ? faces(whole).slice(-mine.length) : []);
    }
  }
});

test("a call whose subagent works in the background is over when that is", () => {
  const t = told(prompt, reply({ call: { id: "c", name: "Task", args: {} } }), { kind: "call.sent", data: { callId: "c" } }, { kind: "task.began", data: { callId: "c", id: "c", type: "explore", description: "d", task: "look", model: "m", background: true } });
  const call = () => t.entries.flatMap((e) => (e.kind === "call" ? [e.call] : []))[0];
  t.add({ seq: 90, time: "", kind: "call.done", data: { callId: "c", text: "it works in the background", durationMs: 1 } });
  expect(call()?.state).toBe("running");
  t.add({ seq: 91, time: "", kind: "task.ended", data: { callId: "c", status: "completed", durationMs: 7, turns: 1, toolCalls: 0, usage, told: "found" } } as unknown as Event);
  expect(call()).toMatchObject({ state: "done", text: "found", ms: 7 });
});

test("a subagent's conversation is below the call at which it works", () => {
  const inside = (kind: string, data: object) => ({ kind: "task.event", data: { callId: "c", kind, data } }) as Told;
  const asked = [prompt, reply({ call: { id: "c", name: "Task", args: {} } }), { kind: "call.sent", data: { callId: "c" } }, { kind: "task.began", data: { callId: "c", id: "c", type: "explore", description: "d", task: "look", model: "m" } }] as Told[];
  const works = [inside("turn.replied", { message: { role: "assistant", blocks: [{ text: "hm" }, { call: { id: "c_0_0", name: "Shell", args: {} } }] }, usage, model: "m" })];
  const t = told(...asked, ...works);
  const said = () => t.entries.flatMap((e) => (e.kind === "call" && e.call.subagent ? [e.call.subagent.said] : []))[0];
  expect(t.turns).toBe(1);
  expect(t.tokens.output).toBe(2 * usage.output);
  expect(said()?.entries.map((e) => e.kind)).toEqual(["text", "call", "turn"]);
  const row = t.entries.find((e) => e.kind === "call");
  const rev = row?.rev ?? 0;
  t.add({ seq: 90, time: "", kind: "approval.asked", data: { approval: { id: "a", callId: "c_0_0", task: "c", tool: "Shell" } } } as unknown as Event);
  const inner = () => said()?.entries.flatMap((e) => (e.kind === "call" ? [e.call] : []))[0];
  expect(inner()?.state).toBe("asks");
  expect(row?.rev).toBeGreaterThan(rev);
  t.add({ seq: 91, time: "", kind: "approval.answered", data: { approvalId: "a", decision: "allow_once" } });
  expect(inner()?.state).toBe("waiting");
  t.add({ seq: 92, time: "", kind: "run.ended", data: { status: "CANCELLED" } });
  expect(inner()?.state).toBe("unstarted");
  expect(told(inside("text.delta", { text: "its beginning is on another page" })).entries).toEqual([]);
});

test("checks are calls of the conversation, and the end has their results", () => {
  const within = (kind: string, data: object) => ({ kind: "task.event", data: { callId: "checks", kind, data } }) as Told;
  const evidence = { rounds: 1, checks: [{ command: "make test", state: "failed", exitCode: 2 }] };
  const t = told(
    prompt, reply({ text: "done" }), { kind: "checks.began", data: { round: 1, checks: [{ command: "make test", callId: "check_1_0", args: { command: "make test" } }] } },
    within("call.sent", { callId: "check_1_0" }), within("call.delta", { callId: "check_1_0", stdout: "FAIL" }), within("call.done", { callId: "check_1_0", text: "FAIL", durationMs: 5 }),
    { kind: "run.ended", data: { status: "FINISHED", outcome: "partly", evidence } },
  );
  expect(t.entries.map((e) => e.kind)).toEqual(["prompt", "text", "turn", "call", "end"]);
  expect(t.entries[3]).toMatchObject({ call: { name: "Shell", state: "done", text: "FAIL", output: "FAIL", args: { command: "make test" } } });
  expect(t.entries[4]).toMatchObject({ outcome: "partly", evidence });
});
