import { useEffect, useState, useSyncExternalStore } from "react";
import type { Client } from "../api/client";
import type { ModelRef } from "../api/types";
import { newKey } from "../api/key";
import { asFailure } from "../api/use";
import type { Picture } from "../parts/Pictures";
import { imagesOf } from "../parts/Pictures";
import { toast } from "../parts/toast";

/**
 * A follow-up that the server does not have yet. It waits here while the server is unreachable, even after a
 * reload. Its key makes repeated sending idempotent.
 */
export type Outgoing = { key: string; text: string; pictures: Picture[]; model?: ModelRef };

const listeners = new Set<() => void>();
const cache = new Map<string, { raw: string | null; list: Outgoing[] }>();
const place = (id: string) => `aloft.queue.${id}`;
const none: Outgoing[] = [];

function read(id: string): Outgoing[] {
  const raw = localStorage.getItem(place(id));
  const kept = cache.get(id);
  if (kept && (kept.raw === raw || kept.raw === unkept)) return kept.list;
  let list = none;
  try {
    list = raw ? (JSON.parse(raw) as Outgoing[]) : none;
  } catch {
    // The stored text does not have the expected format, so there are no unsent
    // prompts.
  }
  cache.set(id, { raw, list });
  return list;
}

const unkept = "unkept"; // the storage is full: it is kept until the page is closed

function write(id: string, list: Outgoing[]): void {
  try {
    if (list.length > 0) localStorage.setItem(place(id), JSON.stringify(list));
    else localStorage.removeItem(place(id));
    cache.delete(id);
  } catch {
    cache.set(id, { raw: unkept, list });
  }
  if (list.length === 0) cache.delete(id);
  listeners.forEach((tell) => tell());
}

export const enqueue = (id: string, text: string, pictures: Picture[], model?: ModelRef) => write(id, [...read(id), { key: newKey(), text, pictures, ...(model ? { model } : {}) }]);
export const drop = (id: string, key: string) => write(id, read(id).filter((q) => q.key !== key));

const subscribe = (tell: () => void) => {
  listeners.add(tell);
  addEventListener("storage", tell);
  return () => {
    listeners.delete(tell);
    removeEventListener("storage", tell);
  };
};

const sending = new Set<string>();
const again = 3_000; // retry interval in milliseconds while the server is unreachable

/** useOutgoing returns the unsent prompts of an agent, and sends the first of them. */
export function useOutgoing(client: Client, id: string, sent: () => void): Outgoing[] {
  const list = useSyncExternalStore(subscribe, () => read(id));
  const [round, setRound] = useState(0);
  const first = list[0];
  useEffect(() => {
    if (!first || sending.has(first.key)) return;
    sending.add(first.key);
    client
      .queue(id, { text: first.text, ...(first.pictures.length > 0 ? { images: imagesOf(first.pictures) } : {}) }, first.key, first.model)
      .then(
        () => {
          drop(id, first.key);
          sent();
        },
        (e: unknown) => {
          const f = asFailure(e);
          if (f.offline) return void setTimeout(() => setRound((n) => n + 1), again);
          drop(id, first.key);
          // Put a prompt that the server has refused back into the box.
          sessionStorage.setItem(`aloft.draft.follow.${id}`, JSON.stringify(first.text));
          toast(f.message, true);
        },
      )
      .finally(() => sending.delete(first.key));
  }, [client, id, first, sent, round]);
  return list;
}
