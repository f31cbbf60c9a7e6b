import { createContext, useCallback, useContext, useEffect, useRef, useState } from "react";
import type { Client } from "./client";
import { Signal } from "../signal";
import { Failure } from "./transport";

export const ClientContext = createContext<Client | null>(null);

export function useClient(): Client {
  const client = useContext(ClientContext);
  if (!client) throw new Error("no client");
  return client;
}

/** Whether the last request could not reach the server. */
export const offline = new Signal(false);

/** Converts any thrown value to a Failure. */
export function asFailure(e: unknown): Failure {
  return e instanceof Failure ? e : new Failure(-1, "internal", e instanceof Error ? e.message : String(e));
}

export type Loaded<T> = { data?: T; failure?: Failure; loading: boolean; reload: () => void };

const retryAfter = 3_000; // retry interval in milliseconds while the server is unreachable

/**
 * Loads data, and reloads it when a dependency changes, and periodically while
 * the page is visible. If reloading fails, the old data stays.
 */
export function useLoad<T>(load: () => Promise<T>, on: readonly unknown[], every = 0): Loaded<T> {
  const [state, setState] = useState<{ data?: T; failure?: Failure; loading: boolean }>({ loading: true });
  const [round, setRound] = useState(0);
  const key = JSON.stringify(on);
  const last = useRef(key);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    let over = false;
    let timer = 0;
    if (last.current !== key) {
      last.current = key;
      setState({ loading: true });
    }
    const again = (after: number) => {
      if (!over && after > 0) timer = window.setTimeout(attempt, after);
    };
    const attempt = () => {
      if (document.hidden) {
        again(retryAfter);
        return;
      }
      latest.current().then(
        (data) => {
          if (over) return;
          offline.set(false);
          setState({ data, loading: false });
          again(every);
        },
        (e: unknown) => {
          if (over) return;
          const failure = asFailure(e);
          offline.set(failure.offline);
          setState((s) => ({ ...s, failure, loading: false }));
          again(failure.offline ? retryAfter : every);
        },
      );
    };
    attempt();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [key, round, every]);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  return { ...state, reload };
}
