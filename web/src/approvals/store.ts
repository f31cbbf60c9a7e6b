import { useSyncExternalStore } from "react";
import type { Client } from "../api/client";
import type { Approval } from "../api/types";
import type { Failure } from "../api/transport";
import { asFailure, offline } from "../api/use";

export type Waiting = { items: readonly Approval[]; loading: boolean; failure?: Failure };

const soon = 3_000; // polling interval in milliseconds, also in a background tab, which may show notifications

let state: Waiting = { items: [], loading: true };
let timer = 0;
let round = 0; // number of the latest request, so that an outdated response is ignored
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

/** The pending requests of the signed-in user, oldest first. */
export function useApprovals(client: Client): Waiting {
  asked = client;
  return useSyncExternalStore(subscribe, get);
}

/** Polls at once, after a request was answered. */
export function refreshApprovals(): void {
  if (listeners.size > 0) void look();
}
