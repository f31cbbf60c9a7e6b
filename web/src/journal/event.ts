import type { Approval } from "../api/types";

/** The journal events that the dashboard shows; it ignores all others. */
export type Tokens = { input: number; output: number; cacheRead: number; cacheWrite: number; cost?: number; priced?: number }; // cost in billionths of a dollar, of the priced ones
export type Block = {
  text?: string;
  image?: { mediaType: string };
  thinking?: { text?: string };
  call?: { id: string; name: string; args: unknown };
};
export type Message = { role: string; blocks: Block[] };

type Bodies = {
  "run.created": { prompt: Message; mode?: string; by?: string };
  "agent.rewound": { to: number; turn: number };
  "prompt.queued": { runId: string; prompt: Message };
  "prompt.unqueued": { runId: string };
  "run.started": object;
  "boot.step": { name: string; state: string; durationMs?: number; detail?: string };
  "machine.made": { machineId: string };
  "machine.ready": object;
  "machine.lost": { reason: string };
  "machine.out_of_memory": { message: string };
  "machine.disk_full": { message: string };
  "machine.hibernated": { code?: string; reason?: string };
  "machine.woken": object;
  "machine.expiring": { at: string };
  "machine.expired": object;
  notice: { text: string };
  "text.delta": { text: string };
  "thinking.delta": { text: string };
  "model.retry": { reason: string; message?: string; waitMs: number; attempt: number; attempts?: number }; // the attempt that failed, and of how many
  "model.fallback": { from: string; to: string; attempts: number; purpose?: string };
  "agent.titled": { title: string; usage: Tokens };
  "image.generated": { callId: string; usage: Tokens };
  "turn.replied": { message: Message; usage: Tokens; model: string };
  "call.judged": { callId: string; treatment: string; by: string; why?: string; message?: string };
  "call.sent": { callId: string };
  "call.returned": { callId: string };
  "call.delta": { callId: string; stdout?: string; stderr?: string };
  "call.done": { callId: string; text: string; error?: boolean; output?: unknown; images?: { mediaType: string }[]; durationMs: number };
  "call.classified": { usage?: Tokens };
  "task.began": { callId: string; id: string; type: string; description: string; task: string; model: string; readOnly?: boolean; background?: boolean };
  "task.event": { callId: string; kind: string; data: unknown }; // an event of a subagent's conversation
  "task.ended": { callId: string; status: string; durationMs: number; turns: number; toolCalls: number; usage: Tokens; told?: string }; // told: if it worked in the background
  compacted: { summary: string; usage?: Tokens };
  "cancel.asked": { reason: string };
  "agent.paused": object;
  "agent.resumed": object;
  committed: { commit: string; message: string; unhooked?: string };
  pushed: { branch: string; commit: string };
  "pull_request.opened": { pullRequest: { url?: string } };
  "pull_request.failed": { failure: { code: string; message: string; hint?: string } };
  "approval.asked": { approval: Approval & { task?: string } }; // without agentId; entries is absent if there are none
  "approval.answered": { approvalId: string; decision: string; message?: string };
  "goal.judged": { usage: Tokens };
  "checks.began": { round: number; checks: { command: string; callId: string; args: unknown }[] };
  "run.ended": { status: string; result?: string; failure?: { code: string; message: string; hint?: string }; outcome?: string; evidence?: Proof };
};

/** The result of a check: passed, failed, not_run or lost. */
export type Check = { command: string; state: string; exitCode?: number; durationMs?: number; output?: string };
/** What the outcome of a run is based on. stale: another commit was pushed than the one that was checked. */
export type Proof = { checks?: Check[]; goal?: { goal: string; met: boolean; missing?: string; failure?: string }; rounds?: number; stale?: boolean; bugfixes?: Bugfix[] };
/** What an agent reports about a bug: fixed, not_a_bug or not_fixed. */
export type Bugfix = { id: string; title?: string; verdict: string; explanation?: string };

export type Event = { [K in keyof Bodies]: { seq: number; time: string; runId?: string; kind: K; data: Bodies[K] } }[keyof Bodies];

/** Unwraps an event of a check's call, which is shown in the agent's conversation. */
export const unwrapped = (e: Event): Event => (e.kind === "task.event" && e.data.callId === "checks" ? ({ ...e, kind: e.data.kind, data: e.data.data } as Event) : e);
