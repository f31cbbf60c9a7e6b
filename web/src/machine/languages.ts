import { StreamLanguage, type LanguageSupport } from "@codemirror/language";
import { languageOf } from "../parts/colour";

type Language = LanguageSupport | StreamLanguage<unknown>;

/** The languages of the editor. Each is a separate file that is loaded when needed. */
const languages: Record<string, () => Promise<Language>> = {
  bash: () => import("@codemirror/legacy-modes/mode/shell").then((m) => StreamLanguage.define(m.shell)),
  c: () => import("@codemirror/lang-cpp").then((m) => m.cpp()),
  cpp: () => import("@codemirror/lang-cpp").then((m) => m.cpp()),
  csharp: () => import("@codemirror/legacy-modes/mode/clike").then((m) => StreamLanguage.define(m.csharp)),
  css: () => import("@codemirror/lang-css").then((m) => m.css()),
  diff: () => import("@codemirror/legacy-modes/mode/diff").then((m) => StreamLanguage.define(m.diff)),
  dockerfile: () => import("@codemirror/legacy-modes/mode/dockerfile").then((m) => StreamLanguage.define(m.dockerFile)),
  go: () => import("@codemirror/lang-go").then((m) => m.go()),
  ini: () => import("@codemirror/legacy-modes/mode/toml").then((m) => StreamLanguage.define(m.toml)),
  java: () => import("@codemirror/lang-java").then((m) => m.java()),
  javascript: () => import("@codemirror/lang-javascript").then((m) => m.javascript({ jsx: true })),
  json: () => import("@codemirror/lang-json").then((m) => m.json()),
  kotlin: () => import("@codemirror/legacy-modes/mode/clike").then((m) => StreamLanguage.define(m.kotlin)),
  less: () => import("@codemirror/lang-css").then((m) => m.css()),
  markdown: () => import("@codemirror/lang-markdown").then((m) => m.markdown()),
  php: () => import("@codemirror/lang-php").then((m) => m.php()),
  python: () => import("@codemirror/lang-python").then((m) => m.python()),
  ruby: () => import("@codemirror/legacy-modes/mode/ruby").then((m) => StreamLanguage.define(m.ruby)),
  rust: () => import("@codemirror/lang-rust").then((m) => m.rust()),
  scss: () => import("@codemirror/lang-css").then((m) => m.css()),
  sql: () => import("@codemirror/lang-sql").then((m) => m.sql()),
  swift: () => import("@codemirror/legacy-modes/mode/swift").then((m) => StreamLanguage.define(m.swift)),
  typescript: () => import("@codemirror/lang-javascript").then((m) => m.javascript({ jsx: true, typescript: true })),
  xml: () => import("@codemirror/lang-xml").then((m) => m.xml()),
  yaml: () => import("@codemirror/lang-yaml").then((m) => m.yaml()),
};

/** The language of a file by its name; undefined if unknown. */
export async function languageFor(path: string): Promise<Language | undefined> {
  const end = path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  if (end === "html" || end === "htm") return (await import("@codemirror/lang-html")).html();
  const name = languageOf(path);
  return Object.hasOwn(languages, name) ? languages[name]?.() : undefined;
}
