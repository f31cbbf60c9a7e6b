import { useCallback, useEffect, useRef, useState } from "react";
import { asFailure, offline, useClient } from "../api/use";
import { folderOf, root, sorted, type Folder } from "./tree";

const again = 3_000; // milliseconds, while the server is away

/** The folders that contain a path, without the workspace. */
function above(path: string): string[] {
  const up: string[] = [];
  for (let f = folderOf(path); f !== root && f !== ""; f = folderOf(f)) up.push(f);
  return up;
}

/**
 * The open folders of a machine. They are loaded when they are opened, and again when revision changes.
 * Loaded folders stay visible while the server is unreachable.
 */
export function useTree(id: string, revision: number, first: string) {
  const client = useClient();
  const [folders, setFolders] = useState<ReadonlyMap<string, Folder>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set(above(first)));
  const [away, setAway] = useState(0);
  const gone = useRef(false);
  const load = useCallback(
    async (folder: string) => {
      const put = (now: (old: Folder | undefined) => Folder) => !gone.current && setFolders((all) => new Map(all).set(folder, now(all.get(folder))));
      try {
        const { items } = await client.files(id, folder);
        offline.set(false);
        put(() => ({ items: sorted(items) }));
      } catch (e) {
        const failure = asFailure(e);
        offline.set(failure.offline);
        if (failure.offline) setAway((n) => n + 1);
        put((old) => (failure.offline && old?.items ? old : { failure: failure.message }));
      }
    },
    [client, id],
  );
  const opened = useRef(open);
  opened.current = open;
  const refresh = useCallback(() => Promise.all([root, ...opened.current].map(load)), [load]);
  useEffect(() => {
    gone.current = false;
    void refresh();
    return () => {
      gone.current = true;
    };
  }, [refresh, revision]);
  useEffect(() => {
    if (away === 0) return;
    const timer = setTimeout(() => void refresh(), again);
    return () => clearTimeout(timer);
  }, [away, refresh]);

  const set = useCallback(
    (folder: string, to: boolean) => {
      setOpen((old) => {
        const now = new Set(old);
        to ? now.add(folder) : now.delete(folder);
        return now;
      });
      if (to) void load(folder);
    },
    [load],
  );
  /** Opens the folders that contain a path. */
  const reveal = useCallback((path: string) => above(path).forEach((f) => set(f, true)), [set]);
  return { folders, open, set, reveal, load, refresh };
}
