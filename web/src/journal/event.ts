import type { components } from "../api/schema";

type Schemas = components["schemas"];

/** An event of the journal. The types are generated from those of the server; see `npm run types`. */
export type Event = Schemas["JournalEvent"];
/** Token counts. cost is the cost of the tokens with a known price, in billionths of a dollar. */
export type Tokens = Schemas["JournalConversationUsage"];
export type Block = Schemas["JournalConversationBlock"];
export type Message = Schemas["JournalConversationMessage"];
/** The result of a check: passed, failed, not_run or lost. */
export type Check = Schemas["JournalCheckResult"];
/**
 * The facts from which the outcome of a run is derived. stale means that the checks ran on a commit
 * other than the pushed one.
 */
export type Proof = Schemas["JournalEvidence"];
/** An agent's report about a bug: fixed, not_a_bug or not_fixed. */
export type Bugfix = Schemas["JournalBugfix"];

/** Unwraps an event of a check's call, which is shown in the agent's conversation. */
export const unwrapped = (e: Event): Event => (e.kind === "task.event" && e.data.callId === "checks" ? ({ ...e, kind: e.data.kind, data: e.data.data } as Event) : e);
