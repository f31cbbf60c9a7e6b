/** The parts of a parsed git diff. */
export type Line = { kind: " " | "+" | "-" | "\\"; text: string; old?: number; new?: number };
export type Hunk = { header: string; lines: Line[] };
export type FileDiff = { path: string; from?: string; status: "added" | "deleted" | "renamed" | "changed"; binary: boolean; added: number; removed: number; hunks: Hunk[] };

/** Parses a diff. It skips lines that it does not recognize, and never fails. */
export function parseDiff(text: string): FileDiff[] {
  const files: FileDiff[] = [];
  let file: FileDiff | undefined;
  let hunk: Hunk | undefined;
  let oldNo = 0;
  let newNo = 0;
  let oldLeft = 0; // number of lines of the hunk that follow
  let newLeft = 0;
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) {
    if (hunk && (oldLeft > 0 || newLeft > 0)) {
      const kind = line === "" ? " " : line[0];
      if (kind === " " || kind === "+" || kind === "-") {
        const one: Line = { kind, text: line.slice(1) };
        if (kind !== "+") (one.old = oldNo++), oldLeft--;
        if (kind !== "-") (one.new = newNo++), newLeft--;
        if (file && kind === "+") file.added++;
        if (file && kind === "-") file.removed++;
        hunk.lines.push(one);
        continue;
      }
    }
    if (hunk && line.startsWith("\\")) {
      hunk.lines.push({ kind: "\\", text: line.slice(2) });
      continue;
    }
    const head = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$/.exec(line);
    if (head) {
      file ??= begin(files, "");
      oldNo = Number(head[1]);
      newNo = Number(head[3]);
      oldLeft = Number(head[2] ?? 1);
      newLeft = Number(head[4] ?? 1);
      hunk = { header: (head[5] ?? "").trim(), lines: [] };
      file.hunks.push(hunk);
    } else if (line.startsWith("diff --git ")) {
      hunk = undefined;
      file = begin(files, pathOfHeader(line.slice("diff --git ".length)));
    } else if (line.startsWith("--- ") || line.startsWith("+++ ")) {
      const side = line.startsWith("+");
      if (!side && (!file || file.hunks.length > 0)) file = begin(files, ""); // a diff without a "diff --git" line
      const path = named(line.slice(4), side ? "b/" : "a/");
      if (file && path === undefined) file.status = side ? "deleted" : "added";
      else if (file && path !== undefined && (side || file.path === "")) file.path = path;
      hunk = undefined;
    } else if (file && line.startsWith("rename from ")) {
      file.from = unquoted(line.slice(12));
      file.status = "renamed";
    } else if (file && line.startsWith("rename to ")) file.path = unquoted(line.slice(10));
    else if (file && line.startsWith("new file")) file.status = "added";
    else if (file && line.startsWith("deleted file")) file.status = "deleted";
    else if (file && /^(Binary files |GIT binary patch)/.test(line)) file.binary = true;
  }
  return files;
}

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/**
 * byPath compares two paths folder by folder, and numbers by their value: step2 comes before
 * step10, and the files of a folder before its subfolders.
 */
export function byPath(a: { path: string }, b: { path: string }): number {
  const [x, y] = [a.path.split("/"), b.path.split("/")];
  for (let i = 0; i < Math.min(x.length, y.length); i++) {
    const ends = Number(i === x.length - 1) - Number(i === y.length - 1);
    if (ends !== 0) return -ends;
    const order = collator.compare(x[i] ?? "", y[i] ?? "");
    if (order !== 0) return order;
  }
  return x.length - y.length || (a.path < b.path ? -1 : a.path > b.path ? 1 : 0);
}

/** totalOf returns the total of added and removed lines in files. */
export const totalOf = (files: readonly FileDiff[]): Pick<FileDiff, "added" | "removed"> => files.reduce((t, f) => ({ added: t.added + f.added, removed: t.removed + f.removed }), { added: 0, removed: 0 });

/**
 * markOf returns a short hash of a file's changes, which shows whether they have changed since. It
 * is not for security.
 */
export function markOf(file: FileDiff): string {
  let h = 5381;
  const add = (text: string) => {
    for (let i = 0; i < text.length; i++) h = (Math.imul(h, 33) ^ text.charCodeAt(i)) >>> 0;
  };
  add(`${file.from ?? ""} ${file.status}`);
  for (const hunk of file.hunks) for (const line of hunk.lines) add(line.kind + line.text);
  return `${h.toString(36)}.${file.added}.${file.removed}`;
}

function begin(files: FileDiff[], path: string): FileDiff {
  const file: FileDiff = { path, status: "changed", binary: false, added: 0, removed: 0, hunks: [] };
  files.push(file);
  return file;
}

/** The path in "a/x b/x". Both halves are equal unless the file was renamed. */
function pathOfHeader(text: string): string {
  if (text.startsWith('"')) return named(/"(?:[^"\\]|\\.)*"$/.exec(text)?.[0] ?? text, "b/") ?? "";
  const half = text.slice(0, (text.length - 1) / 2);
  return half.startsWith("a/") && text.endsWith(` b/${half.slice(2)}`) ? half.slice(2) : text.slice(text.lastIndexOf(" b/") + 3);
}

function named(text: string, side: string): string | undefined {
  const path = unquoted(text.replace(/\t.*$/, ""));
  if (path === "/dev/null") return undefined;
  return path.startsWith(side) ? path.slice(2) : path;
}

const escapes: Record<string, number> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13, '"': 34, "\\": 92 };

/** Decodes a path as git quotes it, with bytes in octal. */
function unquoted(text: string): string {
  if (!text.startsWith('"') || !text.endsWith('"') || text.length < 2) return text;
  const bytes: number[] = [];
  for (const m of text.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|([^\\]+)/g)) {
    if (m[1]) bytes.push(Number.parseInt(m[1], 8));
    else if (m[2]) bytes.push(escapes[m[2]] ?? m[2].charCodeAt(0));
    else bytes.push(...new TextEncoder().encode(m[3]));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

/** A row of a side-by-side view: the old and the new line. */
export type Pair = { left?: Line; right?: Line };

/**
 * Aligns the lines of a hunk side by side: each run of removed lines with the
 * added lines that follow it.
 */
export function pairs(hunk: Hunk): Pair[] {
  const out: Pair[] = [];
  let gone: Line[] = [];
  let come: Line[] = [];
  const flush = () => {
    for (let i = 0; i < Math.max(gone.length, come.length); i++) {
      const pair: Pair = {};
      if (gone[i]) pair.left = gone[i] as Line;
      if (come[i]) pair.right = come[i] as Line;
      out.push(pair);
    }
    gone = [];
    come = [];
  };
  for (const line of hunk.lines) {
    if (line.kind === "-") {
      if (come.length > 0) flush();
      gone.push(line);
    } else if (line.kind === "+") come.push(line);
    else if (line.kind === " ") {
      flush();
      out.push({ left: line, right: line });
    }
  }
  flush();
  return out;
}

/** A row of a view: a hunk's header, a line, or a pair of lines. */
export type Row = { head?: string; line?: Line } & Pair;

/** The rows of a file's changes, inline or side by side. */
export function rowsOf(file: FileDiff, split: boolean): Row[] {
  return file.hunks.flatMap((h): Row[] => [{ head: h.header }, ...(split ? pairs(h) : h.lines.map((line) => ({ line })))]);
}

const longest = 2_000; // maximum line length in characters; longer lines are clipped

/** The approximate width of the longest line in a diff, in characters. */
export function widthOf(file: FileDiff): number {
  let most = 0;
  for (const h of file.hunks) {
    for (const { text } of h.lines) {
      if (text.length * 8 <= most) continue;
      let n = 0;
      for (const c of text.slice(0, longest)) n += c === "\t" ? 8 - (n % 8) : c > "\u2e7f" ? 2 : 1;
      if (n > most) most = n;
    }
  }
  return most;
}
