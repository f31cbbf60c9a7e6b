import { autocompletion, snippetCompletion, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import type { Extension, Text } from "@codemirror/state";
import { EditorView, hoverTooltip, ViewPlugin } from "@codemirror/view";
import { useEffect, useMemo, useRef } from "react";
import type { Schema } from "../api/client";
import type { Finding } from "../api/types";
import Editor from "../machine/Editor";
import { placeIn, schemasAt } from "./place";

type Props = {
  text: string;
  changed: (text: string) => void;
  save: () => void;
  schema: Schema | undefined;
  findings: readonly Finding[];
  goTo: { line: number; column: number } | undefined;
};

const theme = EditorView.theme({
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line-strong)", borderRadius: "7px", overflow: "hidden" },
  ".cm-tooltip.cm-completionInfo": { padding: "6px 10px", maxWidth: "340px", fontSize: "12.5px", fontFamily: "var(--font)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--picked)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--faint)" },
  ".cm-diagnostic": { fontFamily: "var(--font)", fontSize: "12.5px", maxWidth: "420px" },
  ".cm-key-help": { padding: "6px 10px", maxWidth: "360px", fontSize: "12.5px", fontFamily: "var(--font)" },
});

/**
 * The editor of an environment.json: it offers completions from the schema, describes keys, and
 * marks findings.
 */
export default function JsonEditor({ text, changed, save, schema, findings, goTo }: Props) {
  const view = useRef<EditorView>(null);
  const known = useRef(schema);
  known.current = schema;
  const extensions = useMemo((): Extension => {
    const complete = (c: CompletionContext) => (known.current ? completions(known.current, c) : null);
    const hover = hoverTooltip((v, at) => {
      const key = keyAt(v.state.sliceDoc(), at);
      const words = key && known.current && schemasAt(known.current, key.path)[0]?.properties?.[key.key]?.description;
      if (!words) return null;
      return {
        pos: key.from,
        end: key.to,
        create: () => {
          const dom = document.createElement("div");
          dom.className = "cm-key-help";
          dom.textContent = words;
          return { dom };
        },
      };
    });
    return [
      ViewPlugin.define((v) => {
        view.current = v;
        return { destroy: () => void (view.current = null) };
      }),
      autocompletion({ override: [complete], icons: false }), lintGutter(), hover, theme,
    ];
  }, []);
  useEffect(() => {
    const v = view.current;
    if (v) v.dispatch(setDiagnostics(v.state, findings.map((f) => diagnosticOf(v.state.doc, f))));
  }, [findings]);
  useEffect(() => {
    const v = view.current;
    if (!v || !goTo) return;
    v.dispatch({ selection: { anchor: offsetOf(v.state.doc, goTo) }, scrollIntoView: true });
    v.focus();
  }, [goTo]);
  return <Editor path="environment.json" text={text} changed={changed} save={save} extensions={extensions} />;
}

/**
 * offsetOf converts a line, and a column in bytes, to an offset. The text may have changed since
 * line and column were computed.
 */
function offsetOf(doc: Text, { line, column }: { line: number; column: number }): number {
  const at = doc.line(Math.min(line, doc.lines));
  const before = new TextDecoder().decode(new TextEncoder().encode(at.text).slice(0, column - 1));
  return at.from + Math.min(before.length, at.length);
}

function diagnosticOf(doc: Text, f: Finding): Diagnostic {
  const from = offsetOf(doc, f);
  const rest = doc.sliceString(from, doc.lineAt(from).to);
  const length = /^("(?:[^"\\]|\\.)*"?|[\w.-]+)/.exec(rest)?.[0].length ?? rest.length;
  return { from, to: from + length, severity: f.severity, message: f.message + (f.instead ? `; ${f.instead}` : "") };
}

/** keyAt returns the key at a position. */
function keyAt(text: string, position: number): { key: string; path: (string | number)[]; from: number; to: number } | undefined {
  const { slot, from, path } = placeIn(text, position);
  const key = slot === "key" && /^"((?:[^"\\\n]|\\.)*)"/.exec(text.slice(from));
  return key ? { key: key[1] ?? "", path, from, to: from + key[0].length } : undefined;
}

function completions(schema: Schema, c: CompletionContext): CompletionResult | null {
  const text = c.state.sliceDoc();
  const place = placeIn(text, c.pos);
  if (place.slot === "none" || (!c.explicit && !place.word && text[c.pos - 1] !== '"')) return null;
  const close = /^[^\s,:{}[\]]*"/.exec(text.slice(c.pos))?.[0].length ?? 0; // the remaining part of an existing string
  const quoted = text[place.from] === '"';
  const result = { from: place.from, to: c.pos + (quoted ? close : 0), filter: false };
  const fits = (word: string) => word.toLowerCase().includes(place.word.toLowerCase());
  const at = schemasAt(schema, place.path);
  if (place.slot === "key") {
    const named = /^\s*:/.test(text.slice(result.to)); // whether the key has a value already
    const options = at.flatMap((s) => Object.entries(s.properties ?? {})).filter(([name]) => fits(name) && !place.have.includes(name));
    return { ...result, options: options.map(([name, s]) => keyOption(name, s, named)) };
  }
  const values = at.flatMap((s) => s.enum ?? (s.type === "boolean" ? [true, false] : (s.examples ?? [])));
  return { ...result, options: values.map((v) => JSON.stringify(v)).filter(fits).map((label): Completion => ({ label, info: at[0]?.description ?? "" })) };
}

function keyOption(name: string, s: Schema, named: boolean): Completion {
  const type = String(s.type ?? s.anyOf?.[0]?.type ?? (s.enum ? "boolean" : ""));
  const option = { label: name, detail: type, info: s.description ?? "" };
  const quoted = JSON.stringify(name);
  if (named) return { ...option, apply: quoted };
  const empty: Record<string, string> = { string: '"${}"', array: "[${}]", object: "{${}}", boolean: "${true}" };
  return snippetCompletion(`${quoted}: ${empty[type] ?? "${}"}`.replace('"$schema"', '"\\$schema"'), option);
}
