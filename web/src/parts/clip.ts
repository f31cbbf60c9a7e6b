import { words } from "../words";

/** clip leaves out the middle of a text that is longer than most characters, and says so: no screen shows ten million. */
export function clip(text: string, most: number): string {
  if (text.length <= most) return text;
  const half = most >> 1;
  return `${text.slice(0, half)}\n${words.clipped(text.length - 2 * half)}\n${text.slice(-half)}`;
}

/** newest leaves out the beginning, up to the end of a line. */
export function newest(text: string, most: number): string {
  if (text.length <= most) return text;
  const from = text.indexOf("\n", text.length - most) + 1 || text.length - most;
  return `${words.clipped(from)}\n${text.slice(from)}`;
}

/** The same for a line, of which the beginning is enough. */
export const clipLine = (line: string, most = 2_000): string => (line.length <= most ? line : `${line.slice(0, most)}… ${words.clipped(line.length - most)}`);

const turning = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/g;

/**
 * shown makes the characters visible that turn the direction of text: where code, a
 * path or a command is shown, they could have it read as another than it is.
 */
export const shown = (text: string): string => text.replace(turning, (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

/** Both, for a line that somebody decides by. */
export const shownLine = (line: string, most = 400): string => shown(clipLine(line, most));
