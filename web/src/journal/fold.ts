import type { Approval, Journal } from "../api/types";
import { kindOf } from "../approvals/kind";
import type { Call, Entry, Note, Shape, Shot, Waiting } from "./entry";
import { unwrapped, type Block, type Event, type Tokens } from "./event";

type Asked = Extract<Event, { kind: "approval.asked" }>["data"]["approval"];

/** The questions of an event, without options for those with free-text answers. */
const questionsOf = ({ questions }: Asked) => (questions ? { questions: questions.map((q) => ({ ...q, options: (q.options as typeof q.options | undefined) ?? [] })) } : {});

const liveOutput = 100_000; // minimum number of characters that are kept of a running call's output
const none = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, cost: 0, priced: 0 };
const shots = (blocks: readonly Block[] | undefined, seq: number): Shot[] => (blocks ?? []).filter((b) => b.image).map((_, n) => ({ seq, n }));

/**
 * The view of a journal. Events must be added in order, each once; they are folded into the state
 * that is shown. With the summary passed to [Transcript.of], a transcript can start in the middle
 * of a journal.
 */
export class Transcript {
  readonly entries: Entry[] = [];
  tokens: typeof none = { ...none };
  model = "";
  last = 0; // sequence number of the last event
  runId = "";
  turns = 0;
  branch = "";
  todos: { id: string; content: string; status: string }[] = [];
  queue: Waiting[] = []; // prompts queued at the server
  working = false;
  started = ""; // when the latest run was created
  ended = "";

  private end: Extract<Entry, { kind: "end" }> | undefined; // the end of the last run that has ended
  private made = { by: 0, n: 0 }; // entries made by the current event
  private readonly starts = new Map<string, string>(); // start times of runs
  private began = ""; // when the model was called, approximately
  private readonly calls = new Map<string, Extract<Entry, { kind: "call" }>>();
  private boot: Extract<Entry, { kind: "boot" }> | undefined;
  private failing: Extract<Entry, { kind: "note" }> | undefined; // the note about the last failed attempt
  private live: Extract<Entry, { kind: "text" | "thinking" }>[] = []; // entries of the reply that is being streamed

  constructor(private readonly agentId = "") {}

  /**
   * Returns the transcript of a journal that starts at a later event. events must include all that
   * the summary covers.
   */
  static of(agentId: string, whole: Journal, events: readonly Event[]): Transcript {
    const t = new Transcript(agentId);
    const { inputTokens: input, outputTokens: output, cacheReadTokens: cacheRead, cacheWriteTokens: cacheWrite, totalTokens, costUsd, unpricedTokens } = whole.usage;
    t.tokens = { input, output, cacheRead, cacheWrite, cost: Math.round((costUsd ?? 0) * 1e9), priced: totalTokens - (unpricedTokens ?? 0) };
    t.turns = whole.turns;
    for (const e of events) {
      // The numbers of turns and the token counts also include the events before the first one
      // here.
      if (e.seq > whole.counted) break;
      if (e.kind === "turn.replied") t.turns--;
      const usage = usageOf(e);
      if (usage) t.used(usage, -1);
    }
    const first = events[0]?.seq ?? 0;
    t.queue = whole.queue.filter((q) => q.seq < first).map((q) => ({ runId: q.runId, text: q.text, images: Array.from({ length: q.images ?? 0 }, (_, n) => ({ seq: q.seq, n })) }));
    t.branch = whole.branch ?? "";
    t.todos = whole.todos;
    if (whole.run) {
      const { id, createdAt, endedAt } = whole.run;
      t.runId = id;
      t.started = createdAt;
      t.starts.set(id, createdAt);
      t.working = !endedAt;
      t.ended = endedAt ?? "";
    }
    for (const e of events) {
      t.add(e);
      if (e.seq === whole.head && whole.todos.length > 0) t.todos = whole.todos; // the list before these events, if the conversation was rewound to there
    }
    return t;
  }

  add(event: Event): void {
    if (event.seq <= this.last) return; // sent again after a lost connection
    const e = unwrapped(event);
    this.last = e.seq;
    if (this.failing?.again && e.kind !== "model.retry") {
      this.failing.again = { ...this.failing.again, next: 0 }; // the next attempt was made, or there is no further attempt
      this.failing.rev++;
      if (e.kind !== "text.delta" && e.kind !== "thinking.delta") this.failing = undefined;
    }
    this.addToRun(e);
    this.addToCalls(e);
    const note = noteOf(e);
    if (note) this.note(...note, e);
  }

  /** Adds an event about a run, its prompts, its machine or the model's text. */
  private addToRun(e: Event): void {
    switch (e.kind) {
      case "run.created":
        this.runId = e.runId ?? "";
        this.working = true;
        if (this.end) {
          this.end.over = true;
          this.end.rev++;
        }
        this.started = e.time;
        this.starts.set(this.runId, e.time);
        this.ended = "";
        this.boot = undefined;
        this.began = e.time;
        this.queue = this.queue.filter((q) => q.runId !== this.runId);
        if (e.data.prompt.blocks?.length) this.push({ kind: "prompt", text: textOf(e.data.prompt.blocks), images: shots(e.data.prompt.blocks, e.seq), runId: this.runId, ...(e.data.mode === "plan" ? { plan: true } : {}), ...(e.data.by === "pull_request" ? { fromPull: true } : {}) }, e);
        break;
      case "agent.rewound":
        this.rewound(e);
        break;
      case "prompt.queued":
        this.queue = [...this.queue, { runId: e.data.runId, text: textOf(e.data.prompt.blocks), images: shots(e.data.prompt.blocks, e.seq) }];
        break;
      case "prompt.unqueued":
        this.queue = this.queue.filter((q) => q.runId !== e.data.runId);
        break;
      case "call.classified":
      case "goal.judged":
      case "agent.titled":
      case "image.generated":
        this.used(usageOf(e));
        break;
      case "boot.step":
        this.step(e.data, e);
        break;
      case "machine.ready":
        if (this.boot) {
          this.boot.done = true;
          this.boot.rev++;
        }
        break;
      case "text.delta":
        this.delta("text", e.data.text, e);
        break;
      case "thinking.delta":
        this.delta("thinking", e.data.text, e);
        break;
      case "model.retry":
        this.dropLive();
        this.dropLive();
        this.again(e);
        break;
      case "turn.replied":
        this.replied(e.data.message.blocks ?? [], e.data.usage, e.data.model, e);
        break;
      case "run.ended":
        this.close(e);
        break;
      case "compacted":
        this.used(usageOf(e));
        break;
      case "pushed":
        this.branch = e.data.branch;
        break;
    }
  }

  /** Adds an event about a call, an approval or a subagent. */
  private addToCalls(e: Event): void {
    switch (e.kind) {
      case "task.began":
        this.change(e.data.callId, (c) => (c.subagent = { ...e.data, said: new Transcript(this.agentId) }));
        break;
      case "task.event":
        this.used(usageOf(e));
        this.change(e.data.callId, (c) => c.subagent?.said.add({ ...e, kind: e.data.kind, data: e.data.data } as Event));
        break;
      case "task.ended":
        this.change(e.data.callId, (c) => {
          if (!c.subagent?.background || c.state !== "running") return;
          c.state = e.data.status === "completed" ? "done" : "failed";
          c.text = e.data.told ?? "";
          c.ms = e.data.durationMs;
        });
        break;
      case "call.judged":
        this.change(e.data.callId, (c) => {
          const { treatment, by, why } = e.data;
          c.judged = why === undefined ? { treatment, by } : { treatment, by, why };
          if (treatment === "refused") {
            c.state = "refused";
            c.text = e.data.message ?? "";
          }
        });
        break;
      case "call.sent":
        this.change(e.data.callId, (c) => (c.state = "running"));
        break;
      case "call.returned":
        this.change(e.data.callId, (c) => (c.state = "waiting"));
        break;
      case "call.delta":
        this.change(e.data.callId, (c) => {
          const all = c.output + (e.data.stdout ?? "") + (e.data.stderr ?? "");
          c.output = all.length > 2 * liveOutput ? all.slice(-liveOutput) : all; // avoid copying for every piece
        });
        break;
      case "call.done":
        this.change(e.data.callId, (c) => {
          if (c.subagent?.background && c.state === "running") return; // a background subagent still runs although the call has its result
          if (c.state !== "refused") c.state = e.data.error ? "failed" : "done";
          c.text = e.data.text;
          c.result = e.data.output;
          c.images = (e.data.images ?? []).map((_, n) => ({ seq: e.seq, n }));
          c.ms = e.data.durationMs;
          if (c.name === "TodoWrite") this.todos = todosOf(c) ?? this.todos;
        });
        break;
      case "approval.asked": {
        if (e.data.approval.task) {
          this.change(e.data.approval.task, (c) => c.subagent?.said.add({ ...e, data: { approval: { ...e.data.approval, task: "" } } }));
          break;
        }
        const approval: Approval = { ...e.data.approval, agentId: this.agentId, entries: (e.data.approval.entries as string[] | undefined) ?? [], ...questionsOf(e.data.approval) } as Approval;
        this.change(approval.callId, (c) => {
          c.state = "asks";
          c.approval = approval;
        });
        break;
      }
      case "approval.answered":
        for (const entry of this.calls.values()) {
          const { approval, subagent } = entry.call;
          if (subagent) {
            subagent.said.add(e);
            entry.rev++;
          }
          if (approval?.id !== e.data.approvalId) continue;
          delete entry.call.approval;
          entry.call.state = e.data.decision === "deny" && kindOf(approval) === "call" ? "refused" : "waiting"; // the result of an approved call follows soon
          entry.rev++;
        }
        break;
      case "checks.began":
        for (const c of e.data.checks ?? []) this.called({ id: c.callId, name: "Shell", args: c.args }, e);
        break;
    }
  }

  /** The pending question or plan of the agent. */
  asked(): Approval | undefined {
    for (const { call } of this.calls.values()) if (call.approval && kindOf(call.approval) !== "call") return call.approval;
    return undefined;
  }

  /** Keys do not depend on the event with which the transcript begins. */
  private push<T extends Shape>(shape: T, e: Event, key = ""): Extract<Entry, { kind: T["kind"] }> {
    if (this.made.by !== e.seq) this.made = { by: e.seq, n: 0 };
    const entry = { ...shape, key: key || `e${e.seq}.${this.made.n++}`, rev: 0, time: e.time, seq: e.seq } as unknown as Extract<Entry, { kind: T["kind"] }>;
    this.entries.push(entry);
    return entry;
  }

  /** Records a failed attempt. Consecutive failed attempts share one entry. */
  private again(e: Extract<Event, { kind: "model.retry" }>): void {
    const again = { attempt: e.data.attempt, attempts: e.data.attempts ?? 0, next: Date.parse(e.time) + e.data.waitMs };
    const text = e.data.message ?? e.data.reason;
    const last = this.entries.at(-1);
    if (this.failing && this.failing === last && e.data.attempt > 1) {
      Object.assign(last, { text, again });
      last.rev++;
      return;
    }
    this.failing = this.push({ kind: "note", about: "retry", tone: "amber", text, again }, e);
  }

  private note(about: Note, tone: "plain" | "amber" | "red", text: string, e: Event): void {
    this.push({ kind: "note", about, tone, text }, e);
  }

  private step(data: Extract<Event, { kind: "boot.step" }>["data"], e: Event): void {
    this.boot ??= this.push({ kind: "boot", steps: [], done: false }, e);
    let step = this.boot.steps.find((s) => s.name === data.name);
    if (!step) this.boot.steps.push((step = { name: data.name, state: data.state }));
    step.state = data.state;
    if (data.durationMs !== undefined) step.ms = data.durationMs;
    if (data.detail) step.detail = data.detail;
    this.boot.rev++;
  }

  private delta(kind: "text" | "thinking", text: string, e: Event): void {
    let entry = this.live.at(-1);
    if (entry?.kind !== kind) {
      if (entry) {
        entry.live = false;
        entry.rev++;
      }
      entry = this.push({ kind, text: "", live: true }, e, this.keyOf(kind, this.live.filter((one) => one.kind === kind).length, e));
      this.live.push(entry);
    }
    entry.text += text;
    entry.rev++;
  }

  /** The key of the n-th text or thought of the reply that is being streamed. */
  private keyOf(kind: "text" | "thinking", n: number, e: Event): string {
    return `t${this.turns + 1}.${kind}.${n}.${e.runId ?? ""}`;
  }

  /** Removes the pieces of a reply that was cut off. */
  private dropLive(): void {
    for (const entry of this.live) this.entries.splice(this.entries.lastIndexOf(entry), 1);
    this.live = [];
  }

  /** Replaces the streamed pieces by the complete reply; identical parts keep their row. */
  private replied(blocks: readonly Block[], usage: Tokens, model: string, e: Event): void {
    const pieces = this.live;
    this.live = [];
    const seen = { text: 0, thinking: 0 };
    for (const block of blocks) {
      const kind = block.thinking ? "thinking" : "text";
      const text = block.thinking ? (block.thinking.text ?? "") : (block.text ?? "");
      if (text) {
        const at = pieces.findIndex((p) => p.kind === kind);
        const entry = at >= 0 ? pieces.splice(at, 1)[0] : this.push({ kind, text, live: false }, e, this.keyOf(kind, seen[kind], e));
        seen[kind]++;
        if (entry) {
          entry.text = text;
          entry.seq = e.seq;
          entry.live = false;
          entry.rev++;
        }
      }
      if (block.call) this.called(block.call, e);
    }
    for (const left of pieces) this.entries.splice(this.entries.lastIndexOf(left), 1);
    this.turns++;
    this.model = model;
    this.used(usage);
    this.push({ kind: "turn", no: this.turns, tokens: usage, ms: this.began ? Date.parse(e.time) - Date.parse(this.began) : 0 }, e);
    this.began = e.time;
  }

  private used(usage: Tokens | undefined, sign: 1 | -1 = 1): void {
    for (const k of Object.keys(none) as (keyof typeof none)[]) this.tokens[k] += sign * (usage?.[k] ?? 0);
  }

  /**
   * Replaces everything from an event on by one collapsed entry, because the conversation was
   * rewound to that event.
   */
  private rewound(e: Extract<Event, { kind: "agent.rewound" }>): void {
    const at = this.entries.findIndex((entry) => entry.seq >= e.data.to);
    if (at >= 0) this.push({ kind: "replaced", entries: this.entries.splice(at), turns: Math.max(0, this.turns - e.data.turn + 1) }, e);
    this.todos = this.entries.reduce((list, entry) => (entry.kind === "call" && entry.call.name === "TodoWrite" ? (todosOf(entry.call) ?? list) : list), [] as Transcript["todos"]);
  }

  private called(call: { id: string; name: string; args: unknown }, e: Event): void {
    if (this.calls.has(call.id)) return;
    const args = call.args !== null && typeof call.args === "object" && !Array.isArray(call.args) ? (call.args as Record<string, unknown>) : { arguments: call.args };
    this.calls.set(call.id, this.push({ kind: "call", call: { id: call.id, name: call.name, args, state: "waiting", output: "", text: "", images: [] } }, e, `c.${call.id}`));
  }

  private change(id: string, how: (c: Call) => void): void {
    const entry = this.calls.get(id);
    if (!entry) return;
    how(entry.call);
    entry.rev++;
  }

  /** How long the run that ended took; 0 if it began before the first event here. */
  private lasted(e: Event): number {
    const began = this.starts.get(e.runId ?? this.runId);
    return began ? Date.parse(e.time) - Date.parse(began) : 0;
  }

  /** Ends everything that is in progress. */
  private halt(): void {
    for (const entry of this.live) {
      entry.live = false;
      entry.rev++;
    }
    this.live = [];
    for (const entry of this.calls.values()) {
      const { state } = entry.call;
      if (state !== "running" && state !== "waiting" && state !== "asks") continue;
      entry.call.state = state === "running" ? "cut" : "unstarted";
      delete entry.call.approval;
      entry.call.subagent?.said.halt();
      entry.rev++;
    }
  }

  private close(e: Extract<Event, { kind: "run.ended" }>): void {
    this.halt();
    this.working = false;
    this.ended = e.time;
    const { status, failure, result, outcome, evidence } = e.data;
    this.end = this.push({ kind: "end", status, ...failure, ms: this.lasted(e), ...(result ? { result } : {}), ...(outcome ? { outcome } : {}), ...(evidence ? { evidence } : {}) }, e);
  }
}

/** The events that report token usage. */
const paid = ["turn.replied", "call.classified", "goal.judged", "agent.titled", "image.generated", "compacted"];
const usageOf = (e: Event): Tokens | undefined => {
  const { kind, data } = e.kind === "task.event" ? e.data : e;
  return paid.includes(kind) ? (data as { usage?: Tokens }).usage : undefined;
};

/**
 * Drops the deltas of replies and output that a later event contains in full,
 * as the API's pages do.
 */
export function settled(events: readonly Event[]): Event[] {
  const kept: Event[] = [];
  const calls = new Set<string>();
  let reply = false;
  for (let i = events.length - 1; i >= 0; i--) {
    const e = events[i];
    if (!e) continue;
    if (e.kind === "turn.replied" || e.kind === "model.retry") reply = true;
    else if (e.kind === "run.created" || e.kind === "run.ended") reply = false;
    else if (e.kind === "call.done") calls.add(e.data.callId);
    else if ((e.kind === "text.delta" || e.kind === "thinking.delta") && reply) continue;
    else if (e.kind === "call.delta" && calls.has(e.data.callId)) continue;
    kept.push(e);
  }
  return kept.reverse();
}

export const textOf = (blocks: readonly Block[] | undefined): string => (blocks ?? []).map((b) => b.text ?? "").join("");

/** The note for an event: its subject, tone and text. */
function noteOf(e: Event): [about: Note, tone: "plain" | "amber" | "red", text: string] | undefined {
  switch (e.kind) {
    case "pushed":
      return ["pushed", "plain", `${e.data.branch} ${e.data.commit.slice(0, 8)}`];
    case "pull_request.opened":
      return ["pulled", "plain", e.data.pullRequest.url ?? ""];
    case "pull_request.failed":
      return ["unpulled", "amber", [e.data.failure.message, e.data.failure.hint].filter(Boolean).join(". ")];
    case "committed":
      return ["committed", e.data.unhooked ? "amber" : "plain", `${e.data.commit.slice(0, 8)} ${e.data.message.split("\n")[0] ?? ""}${e.data.unhooked ? ` (${e.data.unhooked})` : ""}`];
    case "model.fallback":
      return ["fallback", "amber", `${e.data.from} → ${e.data.to}${e.data.purpose ? ` (${e.data.purpose})` : ""}`];
    case "machine.lost":
      return ["lost", "red", e.data.reason];
    case "machine.out_of_memory":
      return ["memory", "amber", e.data.message];
    case "machine.disk_full":
      return ["disk", "amber", e.data.message];
    case "machine.hibernated":
      return ["hibernated", "plain", e.data.code === "failed" || e.data.code === "no_room" ? (e.data.reason ?? "") : ""];
    case "machine.woken":
      return ["woken", "plain", ""];
    case "machine.expiring":
      return ["expiring", "amber", new Date(e.data.at).toLocaleString()];
    case "machine.expired":
      return ["expired", "amber", ""];
    case "notice":
      return ["notice", "plain", e.data.text];
    case "compacted":
      return ["compacted", "plain", e.data.summary];
    case "cancel.asked":
      return ["cancel", "plain", e.data.reason];
    case "agent.paused":
      return ["paused", "amber", ""];
    case "agent.resumed":
      return ["resumed", "plain", ""];
  }
  return undefined;
}

/** Returns the list that a TodoWrite call has left. */
export function todosOf(c: Call): Transcript["todos"] | undefined {
  const success = (c.result as { success?: { todos?: unknown } } | undefined)?.success;
  const list = success?.todos ?? (c.args["merge"] === false ? c.args["todos"] : undefined);
  return Array.isArray(list) ? (list as Transcript["todos"]).filter((t) => t !== null && typeof t === "object" && typeof t.content === "string") : undefined;
}
