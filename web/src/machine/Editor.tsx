import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags as t } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { words } from "../words";
import { shownName } from "../parts/clip";
import { languageFor } from "./languages";
import { adoptStyles } from "./sheets";
import { lineEndOf } from "./text";


adoptStyles();

const w = words.files;

const theme = EditorView.theme({
  "&": { height: "100%", fontSize: "12.5px", backgroundColor: "var(--bg)", color: "var(--text)" },
  "&.cm-focused": { outline: "none" },
  "&.cm-focused .cm-scroller": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { padding: "10px 0", caretColor: "var(--accent)" },
  ".cm-line": { padding: "0 14px 0 6px" },
  ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
  ".cm-gutters": { backgroundColor: "var(--bg)", color: "var(--faint)", border: "0", paddingLeft: "8px" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--sunken)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": { background: "light-dark(#c9d8ff, #2a417f)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--picked)", outline: "1px solid var(--line-strong)" },
  ".cm-selectionMatch": { backgroundColor: "var(--amber-soft)" },
  ".cm-searchMatch": { backgroundColor: "var(--amber-soft)", outline: "1px solid var(--amber)" },
  ".cm-specialChar": { color: "var(--red)" },
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-textfield": { backgroundColor: "var(--bg)", border: "1px solid var(--line-strong)", borderRadius: "5px", fontSize: "12.5px", padding: "3px 6px" },
  ".cm-button": { background: "var(--surface)", border: "1px solid var(--line-strong)", borderRadius: "5px", fontSize: "12.5px", padding: "3px 8px" },
  ".cm-panel.cm-search": { fontSize: "13px", padding: "6px 28px 6px 12px" },
  ".cm-panel.cm-search [name=close]": { color: "var(--muted)", fontSize: "18px", width: "24px", height: "24px" },
});

const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: [t.comment, t.quote, t.meta], color: "var(--faint)" },
    { tag: [t.keyword, t.bool, t.null, t.atom, t.heading], color: "var(--violet)" },
    { tag: [t.string, t.regexp, t.inserted, t.special(t.string)], color: "var(--green)" },
    { tag: [t.number, t.attributeName, t.propertyName, t.list], color: "var(--amber)" },
    { tag: [t.function(t.variableName), t.function(t.propertyName), t.tagName, t.link, t.url], color: "var(--accent)" },
    { tag: [t.typeName, t.className, t.namespace], color: "light-dark(#0b6a78, #6ccbdc)" },
    { tag: [t.deleted, t.invalid], color: "var(--red)" },
    { tag: t.emphasis, fontStyle: "italic" },
    { tag: t.strong, fontWeight: "700" },
  ]),
);

type Props = { path: string; text: string; changed: (text: string) => void; save: () => void; extensions?: Extension };
const none: Extension = [];

/** An editor for a file's text. To show another text, give it another key. */
export default function Editor({ path, text, changed, save, extensions = none }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const tell = useRef({ changed, save });
  tell.current = { changed, save };
  const first = useRef(text);
  useEffect(() => {
    if (!box.current) return;
    let over = false;
    const language = new Compartment();
    const view = new EditorView({
      parent: box.current,
      state: EditorState.create({
        doc: first.current,
        extensions: [
          EditorState.lineSeparator.of(lineEndOf(first.current)),
          EditorView.contentAttributes.of({ "aria-label": w.editorOf(shownName(path)), tabindex: "0" }),
          lineNumbers(), highlightActiveLineGutter(), highlightActiveLine(), highlightSpecialChars(), drawSelection(),
          history(), indentOnInput(), bracketMatching(), highlightSelectionMatches(), search({ top: true }),
          indentUnit.of(unitOf(first.current)),
          keymap.of([{ key: "Mod-s", run: () => (tell.current.save(), true) }, ...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
          EditorView.updateListener.of((u) => u.docChanged && tell.current.changed(u.state.sliceDoc())),
          theme, colours, language.of([]), extensions,
        ],
      }),
    });
    languageFor(path).then(
      (l) => !over && l && view.dispatch({ effects: language.reconfigure(l) }),
      () => undefined, // a plain text is readable, too
    );
    return () => {
      over = true;
      view.destroy();
    };
  }, [path, extensions]);
  return <div className="editor" ref={box} />;
}

/** The indentation of a text. */
function unitOf(text: string): string {
  const found = /^(\t|  {1,7})\S/m.exec(text.slice(0, 20_000));
  return found?.[1] ?? "  ";
}
