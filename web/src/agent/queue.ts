import { useEffect, useSyncExternalStore } from "react";
import type { Client } from "../api/client";
import { asFailure } from "../api/use";
import type { Picture } from "../parts/Pictures";
import { imagesOf } from "../parts/Pictures";
import { toast } from "../parts/toast";

/** A follow-up that waits until the agent is free. The key lets it be sent again without being done twice. */
export type Queued = { key: string; text: string; pictures: Picture[] };

const listeners = new Set<() => void>();
const cache = new Map<string, { raw: string | null; list: Queued[] }>();
const place = (id: string) => `aloft.queue.${id}`;
const none: Queued[] = [];

function read(id: string): Queued[] {
  const raw = localStorage.getItem(place(id));
  const kept = cache.get(id);
  if (kept && kept.raw === raw) return kept.list;
  let list = none;
  try {
    list = raw ? (JSON.parse(raw) as Queued[]) : none;
  } catch {
    // not ours: nothing is queued
  }
  cache.set(id, { raw, list });
  return list;
}

function write(id: string, list: Queued[]): void {
  if (list.length > 0) localStorage.setItem(place(id), JSON.stringify(list));
  else localStorage.removeItem(place(id));
  listeners.forEach((tell) => tell());
}

export const enqueue = (id: string, text: string, pictures: Picture[]) => write(id, [...read(id), { key: crypto.randomUUID(), text, pictures }]);
export const unqueue = (id: string, key: string) => write(id, read(id).filter((q) => q.key !== key));

const subscribe = (tell: () => void) => {
  listeners.add(tell);
  addEventListener("storage", tell);
  return () => {
    listeners.delete(tell);
    removeEventListener("storage", tell);
  };
};

const sending = new Set<string>();

/** useQueue is what waits for an agent; when free, the first of it is sent. */
export function useQueue(client: Client, id: string, free: boolean, sent: () => void): Queued[] {
  const queue = useSyncExternalStore(subscribe, () => read(id));
  const first = queue[0];
  useEffect(() => {
    if (!free || !first || sending.has(first.key)) return;
    sending.add(first.key);
    client
      .followUp(id, { text: first.text, ...(first.pictures.length > 0 ? { images: imagesOf(first.pictures) } : {}) }, first.key)
      .then(
        () => {
          unqueue(id, first.key);
          sent();
        },
        (e: unknown) => {
          const f = asFailure(e);
          if (f.code === "agent_busy" || f.offline) return; // it is tried again when the agent is free
          unqueue(id, first.key);
          enqueueBack(id, first);
          toast(f.message, true);
        },
      )
      .finally(() => setTimeout(() => sending.delete(first.key), 2_000));
  }, [client, id, free, first, sent]);
  return queue;
}

/** What the server refuses goes back to where it was written. */
function enqueueBack(id: string, q: Queued): void {
  sessionStorage.setItem(`aloft.draft.follow.${id}`, JSON.stringify(q.text));
}
