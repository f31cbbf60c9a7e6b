import { words } from "../words";

/** clip removes the middle of a text that has more than the given number of characters, and says so. */
export function clip(text: string, most: number): string {
  if (text.length <= most) return text;
  const half = most >> 1;
  return `${text.slice(0, half)}\n${words.clipped(text.length - 2 * half)}\n${text.slice(-half)}`;
}

/** newest removes the beginning, up to the end of a line. */
export function newest(text: string, most: number): string {
  if (text.length <= most) return text;
  const from = text.indexOf("\n", text.length - most) + 1 || text.length - most;
  return `${words.clipped(from)}\n${text.slice(from)}`;
}

/** clipLine is like clip, for a single line: it keeps only the beginning. */
export const clipLine = (line: string, most = 2_000): string => (line.length <= most ? line : `${line.slice(0, most)}… ${words.clipped(line.length - most)}`);

// Control characters other than tab and line ends, and invisible characters: format
// characters such as marks of text direction, fillers, tags and supplementary variation
// selectors. Joiners, which some scripts and emoji need, and visible format characters
// are excluded.
const hidden =
  /(?![\u200C\u200D\u0600-\u0605\u06DD\u070F\u0890\u0891\u08E2])[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F\u034F\u115F\u1160\u17B4\u17B5\u180B-\u180F\u2028\u2029\u2065\u3164\uFFA0\p{Cf}\u{E0000}-\u{E0FFF}]/gu;
const control = /[\u0000-\u001F]/g;

const named = (c: string) => `⟨U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

/**
 * shown replaces characters that reorder text or are invisible by their names, as in
 * ⟨U+202E⟩. They could make code, a path or a command look like a different one.
 */
export const shown = (text: string): string => text.replace(hidden, named);

/** shownName does the same for a file name, and also replaces line ends and tabs. */
export const shownName = (name: string): string => shown(name.replace(control, named));

/**
 * shownProse replaces only the characters that override the text direction, since prose may use the
 * other ones.
 */
export const shownProse = (text: string): string => text.replace(/[\u202D\u202E]/g, named);

/** shownLine combines clipLine and shown, for a line on which a person bases a decision. */
export const shownLine = (line: string, most = 400): string => shown(clipLine(line, most));
