import type { FileEntry } from "../api/types";

/** The root of the tree: the workspace. */
export const root = ".";

/** The loaded state of a folder. */
export type Folder = { items?: readonly FileEntry[]; failure?: string };

/** A row of the tree: a file, a folder, or a note about a folder. */
export type Row = { path: string; name: string; depth: number; entry?: FileEntry; open: boolean; note?: "loading" | "empty" | string };

export const joined = (folder: string, name: string): string => (folder === root ? name : `${folder}/${name}`);

export const folderOf = (path: string): string => (path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : root);

export const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** Returns the rows of the open folders. */
export function rowsOf(folders: ReadonlyMap<string, Folder>, open: ReadonlySet<string>): Row[] {
  const rows: Row[] = [];
  const add = (folder: string, depth: number) => {
    const known = folders.get(folder);
    const note = known?.failure ?? (known?.items === undefined ? "loading" : known.items.length === 0 ? "empty" : undefined);
    if (note !== undefined) rows.push({ path: `${folder}/`, name: "", depth, open: false, note });
    for (const entry of known?.items ?? []) {
      const path = joined(folder, entry.name);
      const isOpen = entry.type === "folder" && open.has(path);
      rows.push({ path, name: entry.name, depth, entry, open: isOpen });
      if (isOpen) add(path, depth + 1);
    }
  };
  add(root, 0);
  return rows;
}

const names = new Intl.Collator(undefined, { numeric: true });

/** Sorts folders first, then by name. */
export const sorted = (items: readonly FileEntry[]): FileEntry[] =>
  [...items].sort((a, b) => Number(b.type === "folder") - Number(a.type === "folder") || names.compare(a.name, b.name) || (a.name < b.name ? -1 : 1));

/** Normalizes a path that the user has typed; "" if nothing is left. */
export const tidied = (path: string): string => {
  const parts = path.split("/").filter((p, i) => p !== "" && p !== "." && !(p === "~" && i === 0));
  return (path.startsWith("/") ? "/" : "") + parts.join("/");
};

