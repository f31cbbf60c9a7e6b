import { useEffect, useState, useSyncExternalStore } from "react";
import type { Client } from "../api/client";
import type { Failure } from "../api/transport";
import { asFailure, offline } from "../api/use";
import type { Event } from "./event";
import { Transcript } from "./fold";

const soonest = 500; // milliseconds before a lost connection is made again
const latest = 8_000;
const silence = 40_000; // a server that says nothing for so long is gone; it says something every 15 s

/** Follows an agent's journal, over lost connections, into a transcript. */
export class Follower {
  readonly transcript: Transcript;
  failure: Failure | undefined;
  whole = false; // what was there at first has all come
  private rev = 0;
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
  revision = (): number => this.rev;

  start(): () => void {
    this.over = new AbortController();
    void this.run(this.over.signal);
    return () => this.over.abort();
  }

  private async run(over: AbortSignal): Promise<void> {
    for (let wait = soonest; !over.aborted; wait = Math.min(wait * 2, latest)) {
      const before = this.transcript.last;
      try {
        await this.read(over);
      } catch (e) {
        if (over.aborted) return;
        this.failure = asFailure(e);
        if (this.failure.offline) offline.set(true);
        this.tell();
        if (!this.failure.offline && this.failure.status !== 500) return; // it is not there, or not ours to see
      }
      if (this.transcript.last > before) wait = soonest;
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  private async read(over: AbortSignal): Promise<void> {
    const cut = new AbortController();
    const stop = () => cut.abort();
    over.addEventListener("abort", stop);
    let watch = window.setTimeout(stop, silence);
    // There is no mark where the past ends: it has when nothing came for a moment.
    let quiet = window.setTimeout(() => this.caughtUp(), 1_000);
    try {
      for await (const line of this.client.journal(this.id, this.transcript.last, cut.signal)) {
        clearTimeout(watch);
        watch = window.setTimeout(stop, silence);
        offline.set(false);
        this.failure = undefined;
        if (line) this.transcript.add(JSON.parse(line) as Event);
        clearTimeout(quiet);
        quiet = window.setTimeout(() => this.caughtUp(), 60);
        this.tell();
      }
    } finally {
      clearTimeout(watch);
      clearTimeout(quiet);
      over.removeEventListener("abort", stop);
    }
  }

  private caughtUp(): void {
    this.whole = true;
    this.tell();
  }

  /** Tells at most once a frame, however fast the events come. */
  private tell(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.rev++;
      this.listeners.forEach((one) => one());
    });
  }
}

/** useJournal follows an agent for as long as it is looked at. */
export function useJournal(client: Client, id: string): Follower {
  const [follower] = useState(() => new Follower(client, id));
  useEffect(() => follower.start(), [follower]);
  useSyncExternalStore(follower.subscribe, follower.revision);
  return follower;
}
