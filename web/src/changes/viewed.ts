import { useCallback, useMemo, useState } from "react";
import { markOf, type FileDiff } from "./parse";

/**
 * Which files are viewed and which are collapsed, by path, and functions to change these states.
 */
export type Viewed = {
  viewed: ReadonlySet<string>;
  collapsed: ReadonlySet<string>;
  view: (file: FileDiff, on: boolean) => void;
  fold: (path: string) => void;
  foldAll: () => void;
};

const most = 2_000; // maximum number of files that are remembered for an agent

function read(place: string): Record<string, string> {
  try {
    const kept = JSON.parse(localStorage.getItem(place) ?? "{}") as unknown;
    return kept !== null && typeof kept === "object" ? (kept as Record<string, string>) : {};
  } catch {
    return {};
  }
}

/**
 * useViewed stores in this browser which files of an agent a person has viewed. If a file has
 * changed since, it no longer counts as viewed. Viewed files are collapsed.
 */
export function useViewed(agentId: string, files: readonly FileDiff[]): Viewed {
  const place = `aloft.viewed.${agentId}`;
  const [marks, setMarks] = useState(() => read(place));
  const [folded, setFolded] = useState<ReadonlyMap<string, boolean>>(new Map());
  const viewed = useMemo(() => new Set(files.filter((f) => Object.hasOwn(marks, f.path) && marks[f.path] === markOf(f)).map((f) => f.path)), [files, marks]);
  const collapsed = useMemo(() => new Set(files.filter((f) => folded.get(f.path) ?? viewed.has(f.path)).map((f) => f.path)), [files, folded, viewed]);
  const view = useCallback(
    (file: FileDiff, on: boolean) => {
      setMarks((old) => {
        const { [file.path]: _, ...rest } = old;
        const now = on ? Object.fromEntries([...Object.entries(rest), [file.path, markOf(file)] as const].slice(-most)) : rest;
        try {
          localStorage.setItem(place, JSON.stringify(now));
        } catch {
          // The storage is full, so the state is kept only until the page is
          // closed.
        }
        return now;
      });
      setFolded((old) => new Map(old).set(file.path, on));
    },
    [place],
  );
  const fold = useCallback((path: string) => setFolded((old) => new Map(old).set(path, !collapsed.has(path))), [collapsed]);
  const foldAll = useCallback(() => setFolded(new Map(files.map((f) => [f.path, collapsed.size < files.length]))), [files, collapsed]);
  return { viewed, collapsed, view, fold, foldAll };
}
