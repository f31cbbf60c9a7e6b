import type { createLowlight } from "lowlight";
import { useEffect, useState } from "react";

/** Code with its colours: text, or a piece with a class and what is in it. */
export type Coloured = string | { look: string; of: Coloured[] };

type Lowlight = ReturnType<typeof createLowlight>;
let colourer: Lowlight | undefined;
let coming: Promise<Lowlight> | undefined;

const longest = 60_000; // characters; more stay plain

const languages: Record<string, string> = {
  ts: "typescript", tsx: "typescript", mts: "typescript", js: "javascript", jsx: "javascript", mjs: "javascript", py: "python", rb: "ruby", rs: "rust",
  sh: "bash", zsh: "bash", shell: "bash", console: "bash", yml: "yaml", md: "markdown", htm: "xml", html: "xml", svg: "xml", h: "c", cc: "cpp", hpp: "cpp",
  kt: "kotlin", cs: "csharp", toml: "ini", tf: "ini", mk: "makefile", golang: "go", patch: "diff",
};

/** The language of a file, by its name; "" if it is not known. */
export function languageOf(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  if (name === "makefile" || name === "dockerfile") return name;
  const end = name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : "";
  return languages[end] ?? end;
}

type Node = { type: string; value?: string; properties?: { className?: unknown }; children?: Node[] };
const coloured = (n: Node): Coloured =>
  n.type === "text" ? (n.value ?? "") : { look: Array.isArray(n.properties?.className) ? n.properties.className.join(" ") : "", of: (n.children ?? []).map(coloured) };

/** useColours colours code once the colourer has come; until then it is plain. */
export function useColours(code: string, language: string): Coloured[] {
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
      () => undefined, // plain is readable, too
    );
    return () => {
      over = true;
    };
  }, [ready, language]);
  const name = languages[language] ?? language;
  if (!ready || !name || code.length > longest || !ready.registered(name)) return [code];
  return (ready.highlight(name, code) as Node).children?.map(coloured) ?? [code];
}
