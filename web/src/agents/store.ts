import { useSyncExternalStore } from "react";
import type { Client } from "../api/client";
import type { AgentSummary } from "../api/types";
import type { Failure } from "../api/transport";
import { asFailure, offline } from "../api/use";

export type Agents = { items: readonly AgentSummary[]; loading: boolean; failure?: Failure };

const fast = 3_000; // milliseconds between looks at the newest
const whole = 20; // looks at the newest between looks at all

/**
 * All agents, kept up to date while anybody looks: the newest page often, the
 * others now and then.
 */
export class AgentStore {
  private state: Agents = { items: [], loading: true };
  private readonly byId = new Map<string, AgentSummary>();
  private readonly listeners = new Set<() => void>();
  private timer = 0;
  private round = 0;
  private busy = false;

  constructor(private readonly client: Client) {}

  get = (): Agents => this.state;

  subscribe = (tell: () => void): (() => void) => {
    this.listeners.add(tell);
    if (this.listeners.size === 1) void this.look();
    return () => {
      this.listeners.delete(tell);
      if (this.listeners.size === 0) clearTimeout(this.timer);
    };
  };

  /** Looks at once, after something was changed. */
  refresh = (): void => void this.look(true);

  private async look(now = false): Promise<void> {
    clearTimeout(this.timer);
    if (!this.busy && (now || !document.hidden)) {
      this.busy = true;
      await this.load();
      this.busy = false;
    }
    clearTimeout(this.timer);
    if (this.listeners.size > 0) this.timer = window.setTimeout(() => void this.look(), fast);
  }

  private async load(): Promise<void> {
    try {
      const all = this.round % whole === 0;
      const seen = new Set<string>();
      let cursor: string | undefined;
      do {
        const page = await this.client.agents(cursor);
        for (const a of page.items) {
          this.byId.set(a.id, a);
          seen.add(a.id);
        }
        cursor = page.nextCursor;
        if (all && cursor) this.publish(this.state.loading); // the first page is shown at once
      } while (all && cursor);
      if (all) for (const id of this.byId.keys()) if (!seen.has(id)) this.byId.delete(id);
      this.round++;
      offline.set(false);
      this.publish(false);
    } catch (e) {
      const failure = asFailure(e);
      offline.set(failure.offline);
      this.state = { ...this.state, failure, loading: false };
      this.tell();
    }
  }

  private publish(loading: boolean): void {
    this.state = { items: [...this.byId.values()], loading };
    this.tell();
  }

  private tell(): void {
    this.listeners.forEach((one) => one());
  }
}

let store: AgentStore | undefined;

/** useAgents are all agents of the client. */
export function useAgents(client: Client): Agents & { refresh: () => void } {
  const kept = (store ??= new AgentStore(client));
  return { ...useSyncExternalStore(kept.subscribe, kept.get), refresh: kept.refresh };
}

/** forget drops what is kept, when another person signs in. */
export function forgetAgents(): void {
  store = undefined;
}
