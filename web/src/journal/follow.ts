import { useEffect, useState, useSyncExternalStore } from "react";
import type { Client } from "../api/client";
import type { Failure } from "../api/transport";
import type { Journal } from "../api/types";
import { asFailure, offline } from "../api/use";
import type { Event } from "./event";
import { settled, Transcript } from "./fold";

const soonest = 500; // milliseconds before reconnecting for the first time
const latest = 8_000;
const silence = 40_000; // milliseconds without data after which the server counts as gone; it sends a heartbeat every 15 s
const writes = new Set(["text.delta", "thinking.delta", "call.delta"]); // kinds of events that only make a row longer
const often = 20; // number of turns after which the deltas of complete replies are dropped

/**
 * Follows an agent's journal from its end, across lost connections, and folds
 * it into a transcript. Earlier events are fetched on demand.
 */
export class Follower {
  transcript: Transcript;
  failure: Failure | undefined;
  whole = false; // the initial events have arrived
  private journal: Journal | undefined;
  private behind = true; // the transcript must be folded again
  private events: Event[] = []; // from the first fetched event on
  private last = 0; // sequence number of the last event
  private turns = 0;
  private fetching = false;
  private rev = 0;
  private outlined = 0;
  private changed = false; // something other than streamed text has changed
  private frame = 0;
  private readonly listeners = new Set<() => void>();
  private over = new AbortController();

  constructor(
    private readonly client: Client,
    private readonly id: string,
  ) {
    this.transcript = new Transcript(id);
  }

  subscribe = (tell: () => void): (() => void) => {
    this.listeners.add(tell);
    return () => this.listeners.delete(tell);
  };
  /** Increases with every frame that brings something new. */
  revision = (): number => this.rev;
  /** Increases only if something other than streamed text has changed. */
  outline = (): number => this.outlined;

  start(): () => void {
    this.over = new AbortController();
    void this.run(this.over.signal);
    return () => this.over.abort();
  }

  /** Whether the journal has earlier events that are not loaded. */
  get more(): boolean {
    return this.whole && (this.events[0]?.seq ?? 1) > 1;
  }

  /** Fetches earlier events; it may be called repeatedly. */
  older = (): void => {
    const first = this.events[0]?.seq ?? 1;
    if (this.fetching || !this.more) return;
    this.fetching = true;
    this.client.before<Event>(this.id, first, this.over.signal).then(
      (events) => {
        this.fetching = false;
        this.events = [...events, ...settled(this.events)];
        this.fold();
      },
      () => setTimeout(() => {
        this.fetching = false;
        this.tell();
      }, latest),
    );
  };

  private async run(over: AbortSignal): Promise<void> {
    for (let wait = soonest; !over.aborted; wait = Math.min(wait * 2, latest)) {
      const before = this.last;
      try {
        await this.read(over);
      } catch (e) {
        if (over.aborted) return;
        this.failure = asFailure(e);
        if (this.failure.offline) offline.set(true);
        this.tell();
        if (!this.failure.offline && this.failure.status !== 500) return; // the agent does not exist, or the user may not see it
      }
      if (this.last > before) wait = soonest;
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  private async read(over: AbortSignal): Promise<void> {
    const cut = new AbortController();
    const stop = () => cut.abort();
    over.addEventListener("abort", stop);
    let heard = Date.now();
    const watch = window.setInterval(() => Date.now() - heard > silence && stop(), silence / 8);
    let problem: unknown;
    if (!this.journal) {
      this.sumUp().catch((e: unknown) => {
        problem = e;
        stop();
      });
    }
    try {
      for await (const line of this.lines(cut.signal)) {
        heard = Date.now();
        offline.set(false);
        const mended = this.failure !== undefined;
        this.failure = undefined;
        const e = line ? (JSON.parse(line) as Event) : undefined;
        if (e) this.add(e);
        if (e || mended) this.tell(mended || !writes.has(e?.kind ?? ""));
      }
    } catch (e) {
      throw problem ?? e;
    } finally {
      clearInterval(watch);
      over.removeEventListener("abort", stop);
    }
  }

  /** Yields first the newest events, which are sent compressed, then new ones as they happen. */
  private async *lines(signal: AbortSignal): AsyncGenerator<string> {
    if (this.last === 0) yield* this.client.recent(this.id, signal);
    yield* this.client.follow(this.id, this.last, signal);
  }

  private add(e: Event): void {
    if (e.seq <= this.last) return; // sent again after a lost connection
    this.last = e.seq;
    this.events.push(e);
    if (this.behind) return this.fold();
    this.transcript.add(e);
    if (e.kind === "turn.replied" && ++this.turns % often === 0) this.events = settled(this.events);
    // The point to which the conversation was rewound may be among events that
    // are not loaded.
    if (e.kind === "agent.rewound" && this.more) this.sumUp().catch(() => undefined);
  }

  private async sumUp(): Promise<void> {
    this.journal = await this.client.journal(this.id);
    this.behind = true;
    this.fold();
  }

  /** Folds the loaded events, once they reach back as far as the server's summary. */
  private fold(): void {
    if (!this.journal || this.last < Math.max(this.journal.head, this.journal.counted)) return;
    this.whole = true;
    this.behind = false;
    this.transcript = Transcript.of(this.id, this.journal, this.events);
    this.tell();
  }

  /** Notifies listeners at most once per frame, however fast events arrive. */
  private tell(changed = true): void {
    this.changed ||= changed;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.rev++;
      if (this.changed) this.outlined++;
      this.changed = false;
      this.listeners.forEach((one) => one());
    });
  }
}

/**
 * Follows an agent while the component is mounted. Streamed text does not
 * render the component again; [useWritten] is for that.
 */
export function useJournal(client: Client, id: string): Follower {
  const [follower] = useState(() => new Follower(client, id));
  useEffect(() => follower.start(), [follower]);
  useSyncExternalStore(follower.subscribe, follower.outline);
  return follower;
}

/** Renders the component again with every frame that brings something new. */
export const useWritten = (follower: Follower): number => useSyncExternalStore(follower.subscribe, follower.revision);
