import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState, type DragEvent, type KeyboardEvent } from "react";
import { Icon } from "../parts/Icon";
import { words } from "../words";
import { shownName } from "../parts/clip";
import { folderOf, root, type Row } from "./tree";

const w = words.files;
const rowHeight = 26; // pixels

/** How the branch has changed a file, or the files in a folder. */
export type Mark = keyof typeof w.mark;

type Props = {
  rows: readonly Row[];
  at: string;
  marks: ReadonlyMap<string, Mark>;
  unsaved: (path: string) => boolean;
  select: (row: Row) => void;
  toggle: (row: Row, open: boolean) => void;
  act: (what: "move" | "remove", row: Row) => void;
  drop: (folder: string, data: DataTransfer) => void;
};

const idOf = (index: number) => `tree-${index}`;

/** The tree of a machine's files, for mouse and keyboard. Only visible rows are rendered. */
export function Tree({ rows, at, marks, unsaved, select, toggle, act, drop }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [over, setOver] = useState<string>();
  const [cursor, setCursor] = useState(at);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => rowHeight, overscan: 16, getItemKey: (i) => rows[i]?.path ?? i });
  useEffect(() => setCursor(at), [at]);
  const here = Math.max(0, rows.findIndex((r) => r.path === cursor));
  const row = rows[here];

  const go = (to: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    setCursor(rows[next]?.path ?? "");
    virtual.scrollToIndex(next);
  };
  const press = (e: KeyboardEvent) => {
    if (!row || e.ctrlKey || e.metaKey || e.altKey) return;
    const folder = row.entry?.type === "folder";
    const keys: Record<string, () => void> = {
      ArrowDown: () => go(here + 1),
      ArrowUp: () => go(here - 1),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      PageDown: () => go(here + 15),
      PageUp: () => go(here - 15),
      ArrowRight: () => (folder && !row.open ? toggle(row, true) : folder && go(here + 1)),
      ArrowLeft: () => (folder && row.open ? toggle(row, false) : go(rows.findIndex((r) => r.path === folderOf(row.path)))),
      Enter: () => (folder ? toggle(row, !row.open) : select(row)),
      " ": () => select(row),
      F2: () => act("move", row),
      Delete: () => act("remove", row),
    };
    const key = keys[e.key];
    if (key) {
      if (row.entry || !/^(Enter| |F2|Delete)$/.test(e.key)) key();
    } else if (e.key.length === 1) {
      const from = [...rows.slice(here + 1), ...rows.slice(0, here + 1)];
      const hit = from.find((r) => r.name.toLowerCase().startsWith(e.key.toLowerCase()));
      if (!hit) return;
      go(rows.indexOf(hit));
    } else {
      return;
    }
    e.preventDefault();
  };
  const folderAt = (e: DragEvent) => {
    const index = (e.target as Element).closest<HTMLElement>("[data-index]")?.dataset["index"];
    const on = index === undefined ? undefined : rows[Number(index)];
    return on === undefined ? root : on.entry?.type === "folder" ? on.path : folderOf(on.path);
  };
  return (
    <div
      className="tree scroll" role="tree" aria-label={w.tree} tabIndex={0} ref={box} data-over={over === undefined ? undefined : ""} onKeyDown={press}
      aria-activedescendant={row ? idOf(here) : undefined}
      onDragOver={(e) => {
        if (!e.dataTransfer.types.includes("Files")) return;
        e.preventDefault();
        setOver(folderAt(e));
      }}
      onDragLeave={(e) => e.currentTarget.contains(e.relatedTarget as Node | null) || setOver(undefined)}
      onDrop={(e) => {
        e.preventDefault();
        setOver(undefined);
        drop(folderAt(e), e.dataTransfer);
      }}
    >
      <div role="none" className="tree-rows" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((v) => {
          const r = rows[v.index];
          if (!r) return null;
          const place = { transform: `translateY(${v.start}px)`, paddingLeft: 8 + r.depth * 14 };
          if (!r.entry) {
            return (
              <div key={r.path} id={idOf(v.index)} className="tree-row" role="treeitem" aria-disabled="true" aria-level={r.depth + 1} data-index={v.index} style={place}>
                <span className="cut faint">{r.note === "loading" ? w.loading : r.note === "empty" ? w.empty : r.note}</span>
              </div>
            );
          }
          const folder = r.entry.type === "folder";
          const mark = marks.get(r.path);
          return (
            <div
              key={r.path} id={idOf(v.index)} className="tree-row" role="treeitem" data-index={v.index} aria-level={r.depth + 1} aria-expanded={folder ? r.open : undefined}
              aria-selected={r.path === at} data-cursor={v.index === here ? "" : undefined} data-over={over === r.path ? "" : undefined} data-mark={mark} title={shownName(r.path)} style={place}
              onClick={() => {
                setCursor(r.path);
                if (folder) toggle(r, !r.open);
                select(r);
              }}
            >
              {folder ? <Icon name={r.open ? "down" : "right"} /> : <Icon name="file" />}
              <bdi className="cut grow" dir="ltr">{shownName(r.name)}</bdi>
              {r.entry.link && <span className="faint" role="img" aria-label={w.link}>↗</span>}
              {unsaved(r.path) && <span className="dot" data-tone="amber" role="img" aria-label={w.unsavedMark} />}
              {mark && <span className="tree-mark" role="img" aria-label={w.mark[mark]}>{mark === "inside" ? "•" : mark === "added" ? "A" : mark === "renamed" ? "R" : "M"}</span>}
            </div>
          );
        })}
      </div>
      {over !== undefined && <p className="tree-drop small">{w.dropHere(over === root ? w.workspace : shownName(over))}</p>}
    </div>
  );
}
