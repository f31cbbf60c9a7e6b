import type { Schema } from "../api/client";

/** The syntactic context of a position in a JSON text with comments. The text may be incomplete. */
export type PlaceIn = {
  path: (string | number)[]; // path of the object with the key, or of the value
  slot: "key" | "value" | "none";
  from: number; // offset of the word or the string at the position
  word: string; // the part of the word before the position, without the quote
  have: string[]; // the preceding keys in the same object
};

type Frame = { array: boolean; index: number; key: string; keys: string[]; wants: "key" | "colon" | "value" | "comma" };

/** placeIn parses the text up to the position. */
export function placeIn(text: string, position: number): PlaceIn {
  const frames: Frame[] = [];
  let i = 0;
  const top = () => frames.at(-1);
  const valueRead = () => {
    const f = top();
    if (f) f.wants = "comma";
  };
  const place = (from: number, word: string): PlaceIn => {
    const f = top();
    const path = frames.slice(0, -1).map((of) => (of.array ? of.index : of.key));
    if (!f) return { path: [], slot: "none", from, word, have: [] };
    if (!f.array && f.wants === "key") return { path, slot: "key", from, word, have: f.keys };
    const value = f.array ? f.wants !== "comma" : f.wants === "value";
    return { path: [...path, f.array ? f.index : f.key], slot: value ? "value" : "none", from, word, have: f.keys };
  };
  while (i < position) {
    const c = text[i] ?? "";
    if (text.startsWith("//", i) || text.startsWith("/*", i)) {
      const line = text[i + 1] === "/";
      const end = text.indexOf(line ? "\n" : "*/", i + 2);
      const after = end < 0 ? text.length + 1 : end + (line ? 1 : 2);
      if (after > position) return { path: [], slot: "none", from: position, word: "", have: [] };
      i = after;
    } else if (c === '"') {
      let end = i + 1;
      while (end < position && text[end] !== '"' && text[end] !== "\n") end += text[end] === "\\" ? 2 : 1;
      if (end >= position) return place(i, text.slice(i + 1, position));
      const said = text.slice(i + 1, end);
      const f = top();
      if (f && !f.array && f.wants === "key") {
        f.key = said;
        f.keys.push(said);
        f.wants = "colon";
      } else valueRead();
      i = end + 1;
    } else if (c === "{" || c === "[") {
      frames.push({ array: c === "[", index: 0, key: "", keys: [], wants: c === "[" ? "value" : "key" });
      i++;
    } else if (c === "}" || c === "]") {
      frames.pop();
      valueRead();
      i++;
    } else if (c === ":" || c === ",") {
      const f = top();
      if (f && c === ":" && f.wants === "colon") f.wants = "value";
      if (f && c === ",") {
        f.wants = f.array ? "value" : "key";
        f.index++;
      }
      i++;
    } else if (/\s/.test(c)) i++;
    else {
      let end = i;
      while (end < position && !/[\s{}[\]:,"]/.test(text[end] ?? "")) end++;
      if (end >= position) return place(i, text.slice(i, position));
      valueRead();
      i = end;
    }
  }
  return place(position, "");
}

/** schemasAt returns the parts of a schema that apply at a path. */
export function schemasAt(schema: Schema, path: (string | number)[]): Schema[] {
  let at = wide(schema);
  for (const step of path) {
    at = at.flatMap((s) => {
      const next = typeof step === "number" ? s.items : s.properties && Object.hasOwn(s.properties, step) ? s.properties[step] : undefined;
      return next ? wide(next) : [];
    });
  }
  return at;
}

const wide = (s: Schema): Schema[] => (s.anyOf ? s.anyOf.flatMap(wide) : [s]);
