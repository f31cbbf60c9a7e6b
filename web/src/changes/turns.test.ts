import { expect, test } from "vitest";
import type { Event } from "../journal/event";
import { Transcript } from "../journal/fold";
import { pullURL, turnsOf } from "./turns";

const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 };

test("edits belong to the turn that made them", () => {
  const t = new Transcript("bc-1");
  let seq = 0;
  const add = (kind: string, data: object) => t.add({ seq: ++seq, time: "2030-01-01T00:00:00Z", runId: "run-1", kind, data } as Event);
  const turn = (...calls: { id: string; name: string; args: object }[]) => {
    add("turn.replied", { message: { role: "assistant", blocks: calls.map((call) => ({ call })) }, usage, model: "m" });
    for (const c of calls) add("call.done", { callId: c.id, text: "", durationMs: 1, output: { success: {} } });
  };
  add("run.created", { prompt: { role: "user", blocks: [{ text: "go" }] } });
  turn({ id: "a", name: "Write", args: { path: "/workspace/x", contents: "1\n2\n" } }, { id: "b", name: "Shell", args: { command: "make" } });
  turn({ id: "c", name: "Grep", args: {} });
  turn({ id: "d", name: "StrReplace", args: { path: "/workspace/x", old_string: "1", new_string: "3" } });
  const seen = () => turnsOf(t.entries).map((e) => `${e.no} ${e.files.map((f) => `${f.path}+${f.added}-${f.removed}`).join()} ${e.commands}${e.replaced ? " replaced" : ""}`);
  expect(seen()).toEqual(["1 x+2-0 1", "3 x+1-1 0"]);
  add("agent.rewound", { to: 7, turn: 3 });
  expect(seen()).toEqual(["1 x+2-0 1", "3 x+1-1 0 replaced"]);
});

test("a subagent's edits belong to the turn that called it", () => {
  const t = new Transcript("bc-1");
  let seq = 0;
  const add = (kind: string, data: object) => t.add({ seq: ++seq, time: "2030-01-01T00:00:00Z", runId: "run-1", kind, data } as Event);
  const within = (kind: string, data: object) => add("task.event", { callId: "t", kind, data });
  const call = { id: "w", name: "Write", args: { path: "/workspace/x", contents: "1\n" } };
  add("run.created", { prompt: { role: "user", blocks: [{ text: "go" }] } });
  add("turn.replied", { message: { role: "assistant", blocks: [{ call: { id: "t", name: "Task", args: {} } }] }, usage, model: "m" });
  add("task.began", { callId: "t", id: "t", type: "generalPurpose", description: "x", task: "x", model: "m" });
  within("turn.replied", { message: { role: "assistant", blocks: [{ call }, { call: { id: "s", name: "Shell", args: { command: "make" } } }] }, usage, model: "m" });
  within("call.done", { callId: "w", text: "", durationMs: 1, output: { success: {} } });
  within("call.done", { callId: "s", text: "", durationMs: 1, output: { success: {} } });
  add("task.ended", { callId: "t", status: "completed", durationMs: 1, turns: 1, toolCalls: 2, usage });
  add("call.done", { callId: "t", text: "done", durationMs: 1, output: { success: {} } });
  add("turn.replied", { message: { role: "assistant", blocks: [{ text: "done" }] }, usage, model: "m" });
  expect(turnsOf(t.entries).map((e) => [e.no, e.files.map((f) => f.path), e.commands])).toEqual([[1, ["x"], 1]]);
});

test("known forges have a page for a pull request", () => {
  expect(pullURL("https://github.com/acme/shop.git", "aloft/a-b")).toBe("https://github.com/acme/shop/compare/aloft/a-b?expand=1");
  expect(pullURL("git@gitlab.example.com:acme/shop", "x y")).toBe("https://gitlab.example.com/acme/shop/-/merge_requests/new?merge_request%5Bsource_branch%5D=x%20y");
  expect(pullURL("https://git.example.com/acme/shop", "x")).toBeUndefined();
  expect(pullURL("file:///srv/r.git", "x")).toBeUndefined();
  expect(pullURL("javascript:alert(1)//github.com/a/b", "x")).toBeUndefined();
});
