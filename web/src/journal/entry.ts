import type { Approval } from "../api/types";
import type { Proof, Tokens } from "./event";
import type { Transcript } from "./fold";

/**
 * An entry of a conversation. rev increases with every change, so that a row is
 * rendered again only if it changed.
 */
export type Entry = { key: string; rev: number; time: string; seq: number } & (
  | { kind: "prompt"; text: string; images: Shot[]; runId: string; plan?: boolean; fromPull?: boolean }
  | { kind: "turn"; no: number; tokens: Tokens; ms: number }
  | { kind: "replaced"; entries: Entry[]; turns: number }
  | { kind: "boot"; steps: Step[]; done: boolean }
  | { kind: "thinking"; text: string; live: boolean }
  | { kind: "text"; text: string; live: boolean }
  | { kind: "call"; call: Call }
  | { kind: "note"; tone: "plain" | "amber" | "red"; about: Note; text: string; again?: Again }
  | { kind: "end"; status: string; code?: string; message?: string; hint?: string; ms: number; result?: string; outcome?: string; evidence?: Proof; over?: true } // over: another run followed
);
export type Note = "retry" | "lost" | "memory" | "disk" | "hibernated" | "woken" | "expiring" | "expired" | "notice" | "compacted" | "cancel" | "paused" | "resumed" | "committed" | "pushed" | "pulled" | "unpulled" | "fallback";
/**
 * A failed attempt to call the model: its number, the maximum (0 if unknown),
 * and the time of the next attempt (0 once it was made).
 */
export type Again = { attempt: number; attempts: number; next: number };
/** An image of an event, as the API identifies it. */
export type Shot = { seq: number; n: number };
export type Waiting = { runId: string; text: string; images: Shot[] };
export type Step = { name: string; state: string; ms?: number; detail?: string };
export type Call = {
  id: string;
  name: string;
  args: Record<string, unknown>;
  /**
   * "cut": the run ended while the call was running. "unstarted": the run ended before the call
   * started.
   */
  state: "waiting" | "asks" | "running" | "done" | "failed" | "refused" | "cut" | "unstarted";
  output: string; // the output so far, while the call runs
  text: string; // the result as text for the model
  result?: unknown; // the result for programs
  images: Shot[];
  ms?: number;
  judged?: { treatment: string; by: string; why?: string };
  approval?: Approval;
  subagent?: Subagent; // for a Task call: its subagent
};
/** A subagent's work, which is a separate conversation. */
export type Subagent = { type: string; description: string; task: string; model: string; background?: boolean; said: Transcript };

/** An entry without the fields that every entry has. */
export type Shape = Entry extends infer E ? (E extends Entry ? Omit<E, "key" | "rev" | "time" | "seq"> : never) : never;
