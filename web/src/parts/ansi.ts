import { shown } from "./clip";

/** A piece of terminal output and its class names (style/ansi). */
export type Span = { text: string; look: string };

const colours = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/**
 * ansi parses the output of a program: colors and weights become classes, a carriage return restarts the
 * line, a backspace moves back, and every other control sequence is dropped. No sequence affects other lines.
 */
export function ansi(text: string): Span[] {
  const out: Span[] = [];
  let fg = "";
  let weight = new Set<string>();
  const put = (s: string) => {
    if (!s) return;
    const look = [fg, ...weight].filter(Boolean).join(" ");
    const last = out.at(-1);
    if (last && last.look === look) last.text += shown(s);
    else out.push({ text: shown(s), look });
  };
  // CSI, OSC and other strings, two-byte escapes, and the control characters that have an effect.
  // eslint-disable-next-line no-control-regex
  const escape = /\x1b\[([0-9;:<=>?]*)([ -/]*[@-~])|\x1b[\]P^_X][^\x07\x1b]*(?:\x07|\x1b\\|$)|\x1b[ -/]*[0-~]?|[^\n]\x08|[\x00-\x08\x0b-\x1f\x7f]/g;
  let at = 0;
  const whole = lastLines(text);
  for (const m of whole.matchAll(escape)) {
    put(whole.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[2] !== "m") continue;
    const codes = (m[1] || "0").split(/[;:]/).map(Number);
    for (let i = 0; i < codes.length; i++) {
      const c = codes[i] ?? 0;
      if (c === 0) {
        fg = "";
        weight = new Set();
      } else if (c === 1) weight.add("bold");
      else if (c === 2) weight.add("dim");
      else if (c === 3) weight.add("italic");
      else if (c === 4) weight.add("underline");
      else if (c === 22) weight = new Set([...weight].filter((w) => w !== "bold" && w !== "dim"));
      else if (c === 23) weight.delete("italic");
      else if (c === 24) weight.delete("underline");
      else if (c >= 30 && c <= 37) fg = colours[c - 30] ?? "";
      else if (c >= 90 && c <= 97) fg = colours[c - 90] ?? "";
      else if (c === 39) fg = "";
      else if (c === 38 || c === 48) {
        const wide = codes[i + 1] === 5;
        if (c === 38 && wide) fg = indexed(codes[i + 2] ?? 0);
        i += wide ? 2 : 4;
      }
    }
  }
  put(whole.slice(at));
  return out;
}

/** plainText returns the output of a program without its colors. */
export const plainText = (text: string): string => ansi(text).map((s) => s.text).join("");

/** The closest of the 8 basic colors to one of the 256. */
function indexed(n: number): string {
  if (n < 16) return colours[n % 8] ?? "";
  if (n >= 232) return "";
  const c = n - 16;
  const bit = (v: number, max: number) => (v * 2 >= max && v > 0 ? 1 : 0);
  const [r, g, b] = [Math.floor(c / 36), Math.floor(c / 6) % 6, c % 6];
  const max = Math.max(r, g, b);
  return colours[bit(r, max) + 2 * bit(g, max) + 4 * bit(b, max)] ?? "";
}

/** Text after a carriage return overwrites the line, as in a terminal. */
function lastLines(text: string): string {
  if (!text.includes("\r")) return text;
  return text
    .split("\n")
    .map((line) => {
      let end = line.length;
      while (line[end - 1] === "\r") end--;
      return line.slice(line.lastIndexOf("\r", end - 1) + 1, end);
    })
    .join("\n");
}
