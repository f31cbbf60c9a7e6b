import { useSyncExternalStore } from "react";
import type { Client } from "../api/client";
import type { AgentSummary } from "../api/types";
import type { Failure } from "../api/transport";
import { asFailure, offline } from "../api/use";
import { listed } from "../parts/status";
import type { Find } from "../api/types";

export type Agents = { items: readonly AgentSummary[]; loading: boolean; more: boolean; failure?: Failure };

const soon = 3_000; // polling interval in milliseconds
const away = 10_000; // polling interval in a hidden tab
const ahead = 60; // load the next page when this few rows are left

type Page = { ids: string[]; bottom: string; next: string | undefined }; // bottom is when its last one was made

/**
 * The agents that match a filter, newest first, loaded in pages as far as the list was scrolled. While the
 * list is watched, its first page and the visible pages are refreshed periodically.
 */
export class AgentStore {
  private state: Agents;
  private readonly byId: Map<string, AgentSummary>;
  private readonly pages: Page[] = [];
  private readonly listeners = new Set<() => void>();
  private inSight: [number, number] = [0, 0];
  private timer = 0;
  private busy: Promise<void> | undefined;

  /** Agents that are known to match are shown until the server has replied. */
  constructor(
    private readonly client: Client,
    private readonly find: Find,
    known: readonly AgentSummary[] = [],
  ) {
    this.byId = new Map(known.map((a) => [a.id, a]));
    this.state = { items: known, loading: true, more: false };
  }

  get = (): Agents => this.state;
  watched = (): boolean => this.listeners.size > 0;

  subscribe = (tell: () => void): (() => void) => {
    this.listeners.add(tell);
    if (this.listeners.size === 1) void this.look();
    return () => {
      this.listeners.delete(tell);
      if (this.listeners.size === 0) clearTimeout(this.timer);
    };
  };

  /** Refreshes at once after a change. */
  refresh = async (): Promise<void> => {
    await this.busy;
    await this.look();
  };

  /** Sets which rows are visible, so that the following ones are loaded in time. */
  see = (first: number, last: number): void => {
    this.inSight = [first, last];
    if (this.state.more && last > this.state.items.length - ahead) void this.turn(() => this.load(this.pages.length));
  };

  private async look(): Promise<void> {
    clearTimeout(this.timer);
    await this.turn(async () => {
      await this.load(0);
      const seen = new Set(this.state.items.slice(this.inSight[0], this.inSight[1] + 1).map((a) => a.id));
      for (let n = 1; n < this.pages.length; n++) if (this.pages[n]?.ids.some((id) => seen.has(id))) await this.load(n);
    });
    clearTimeout(this.timer);
    if (this.watched()) this.timer = window.setTimeout(() => void this.look(), document.hidden ? away : soon);
  }

  /** Runs one load at a time; requests made meanwhile wait for the next refresh. */
  private turn(what: () => Promise<void>): Promise<void> {
    this.busy ??= what()
      .then(
        () => {
          offline.set(false);
          this.publish();
        },
        (e: unknown) => {
          const failure = asFailure(e);
          offline.set(failure.offline);
          this.state = { ...this.state, failure, loading: false };
          this.tell();
        },
      )
      .finally(() => (this.busy = undefined));
    return this.busy;
  }

  /** Loads a page. An agent that was on this page and is no longer there was removed. */
  private async load(n: number): Promise<void> {
    const above = this.pages[n - 1];
    const { items, nextCursor: next } = await this.client.agents(this.find, above?.next);
    const ids = items.map((a) => a.id);
    const bottom = items.at(-1)?.createdAt ?? above?.bottom ?? "";
    for (const [id, a] of this.byId) {
      const within = (next === undefined || a.createdAt > bottom) && (!above || a.createdAt < above.bottom);
      if (within && !ids.includes(id)) this.byId.delete(id);
    }
    for (const a of items) this.byId.set(a.id, a);
    this.pages[n] = { ids, bottom, next };
    if (next === undefined) this.pages.length = n + 1;
  }

  private publish(): void {
    const items = [...this.byId.values()].sort((x, y) => (x.createdAt < y.createdAt ? 1 : x.createdAt > y.createdAt ? -1 : 0));
    this.state = { items, loading: false, more: this.pages.at(-1)?.next !== undefined };
    this.tell();
  }

  private tell(): void {
    this.listeners.forEach((one) => one());
  }
}

const stores = new Map<string, AgentStore>();
const most = 20; // number of lists that are kept, so that they are shown at once when a person returns

function storeOf(client: Client, find: Find): AgentStore {
  const key = JSON.stringify(find);
  let store = stores.get(key);
  if (!store) {
    const known = new Map([...stores.values()].flatMap((s) => s.get().items).map((a) => [a.id, a]));
    store = new AgentStore(client, find, listed([...known.values()], find));
    for (const [old, one] of stores) if (stores.size >= most && !one.watched()) stores.delete(old);
    stores.set(key, store);
  }
  return store;
}

/** Agents that wait for an answer. */
export const asking: Find = { status: "asks" };

/** useAgents returns the signed-in user's agents that match a filter. */
export function useAgents(client: Client, find: Find): Agents & Pick<AgentStore, "see"> {
  const store = storeOf(client, find);
  return { ...useSyncExternalStore(store.subscribe, store.get), see: store.see };
}

/** Prefetches the list. */
export function foreseeAgents(client: Client): void {
  for (const find of [{}, asking]) void storeOf(client, find).refresh();
}

/** Refreshes everything that is watched, after a change. */
export function refreshAgents(): void {
  for (const store of stores.values()) if (store.watched()) void store.refresh();
}

/** forget clears the store when another user signs in. */
export function forgetAgents(): void {
  stores.clear();
}
