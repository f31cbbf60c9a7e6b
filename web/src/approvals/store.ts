import { useSyncExternalStore } from "react";
import type { Client } from "../api/client";
import type { Approval } from "../api/types";
import type { Failure } from "../api/transport";
import { asFailure, offline } from "../api/use";

export type Waiting = { items: readonly Approval[]; loading: boolean; failure?: Failure };

const soon = 3_000; // milliseconds between looks, also in a tab that nobody looks at: it may tell

let state: Waiting = { items: [], loading: true };
let timer = 0;
let round = 0; // so that a look that was overtaken says nothing
let asked: Client | undefined;
const listeners = new Set<() => void>();
const get = () => state;

function publish(next: Waiting): void {
  state = next;
  listeners.forEach((tell) => tell());
}

async function look(): Promise<void> {
  clearTimeout(timer);
  const mine = ++round;
  try {
    const items = (await asked?.approvals())?.items ?? [];
    if (mine !== round) return;
    offline.set(false);
    publish({ items, loading: false });
  } catch (e) {
    if (mine !== round) return;
    const failure = asFailure(e);
    offline.set(failure.offline);
    publish({ ...state, failure, loading: false });
  }
  if (listeners.size > 0) timer = window.setTimeout(() => void look(), soon);
}

const subscribe = (tell: () => void): (() => void) => {
  listeners.add(tell);
  if (listeners.size === 1) void look();
  return () => {
    listeners.delete(tell);
    if (listeners.size > 0) return;
    clearTimeout(timer);
    round++;
    state = { items: [], loading: true };
  };
};

/** useApprovals is what waits for whoever has signed in, the oldest question first. */
export function useApprovals(client: Client): Waiting {
  asked = client;
  return useSyncExternalStore(subscribe, get);
}

/** Looks at once, after something was answered. */
export function refreshApprovals(): void {
  if (listeners.size > 0) void look();
}
