import type { createLowlight } from "lowlight";
import { useEffect, useRef, useState } from "react";

/** Highlighted code: text, or a class with its content. */
export type Coloured = string | { look: string; of: Coloured[] };

type Lowlight = ReturnType<typeof createLowlight>;
let colourer: Lowlight | undefined;
let coming: Promise<Lowlight> | undefined;

const longest = 60_000; // characters; the rest is not highlighted

const languages: Record<string, string> = {
  ts: "typescript", tsx: "typescript", mts: "typescript", js: "javascript", jsx: "javascript", mjs: "javascript", py: "python", rb: "ruby", rs: "rust",
  sh: "bash", zsh: "bash", shell: "bash", console: "bash", yml: "yaml", md: "markdown", htm: "xml", html: "xml", svg: "xml", h: "c", cc: "cpp", hpp: "cpp",
  kt: "kotlin", cs: "csharp", toml: "ini", tf: "ini", mk: "makefile", golang: "go", patch: "diff",
};

/** The language of a file by its name; "" if unknown. */
export function languageOf(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  if (name === "makefile" || name === "dockerfile") return name;
  const end = name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : "";
  return languages[end] ?? end;
}

type Node = { type: string; value?: string; properties?: { className?: unknown }; children?: Node[] };
const coloured = (n: Node): Coloured =>
  n.type === "text" ? (n.value ?? "") : { look: Array.isArray(n.properties?.className) ? n.properties.className.join(" ") : "", of: (n.children ?? []).map(coloured) };

const none: readonly Coloured[] = [];
const often = 150; // minimum milliseconds between two highlightings of code that grows
const share = 20; // and at least this many times the duration of the last highlighting

/**
 * useColours returns highlighted code, and the rest, which is not highlighted yet. Until the
 * highlighter has loaded, all of the code is the rest. While code grows, its newest part is the
 * rest for a moment, and the part before it keeps its colors.
 */
export function useColours(code: string, language: string): { colours: readonly Coloured[]; rest: string } {
  const [ready, setReady] = useState(colourer);
  useEffect(() => {
    if (ready || !language) return;
    let over = false;
    coming ??= import("./languages").then((m) => m.colourer());
    coming.then(
      (c) => {
        colourer = c;
        if (!over) setReady(c);
      },
      () => undefined, // it stays plain
    );
    return () => {
      over = true;
    };
  }, [ready, language]);
  const done = useRef<{ name: string; code: string; colours: Coloured[]; cost: number; at: number }>(undefined);
  const [, again] = useState(0);
  const name = languages[language] ?? language;
  const can = ready && name && code.length <= longest && ready.registered(name);
  let last = done.current?.name === name && code.startsWith(done.current.code) ? done.current : undefined;
  const due = last ? last.at + Math.max(often, last.cost * share) - performance.now() : 0;
  if (can && last?.code !== code && due <= 0) {
    const began = performance.now();
    const colours = (ready.highlight(name, code) as Node).children?.map(coloured) ?? [code];
    const now = performance.now();
    last = done.current = { name, code, colours, cost: now - began, at: now };
  }
  const behind = can && last !== undefined && last.code !== code;
  useEffect(() => {
    if (!behind) return;
    const timer = setTimeout(() => again((n) => n + 1), Math.max(due, 0));
    return () => clearTimeout(timer);
  });
  if (!can || !last) return { colours: none, rest: code };
  return { colours: last.colours, rest: behind ? code.slice(last.code.length) : "" };
}
