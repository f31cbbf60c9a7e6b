import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm, type ITheme } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "react";
import { useClient } from "../api/use";
import { words } from "../words";
import { Pty } from "./pty";
import { adoptStyles } from "./sheets";

adoptStyles();

const w = words.machine;

/** The page's colors, for the terminal. */
function themeOf(element: HTMLElement): ITheme {
  const probe = document.createElement("i");
  element.append(probe);
  const colour = (name: string) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const theme = {
    background: colour("--sunken"), foreground: colour("--text"), cursor: colour("--accent"), selectionBackground: colour("--picked"), red: colour("--red"),
    green: colour("--green"), yellow: colour("--amber"), blue: colour("--accent"), magenta: colour("--violet"), brightBlack: colour("--faint"),
    black: colour("--muted"), white: colour("--text"), brightRed: colour("--red"), brightGreen: colour("--green"), brightYellow: colour("--amber"),
    brightBlue: colour("--accent"), brightMagenta: colour("--violet"), brightWhite: colour("--text"),
  };
  probe.remove();
  return theme;
}

/** A terminal that is shared with the agent. */
export default function Terminal({ id, name }: { id: string; name: string }) {
  const client = useClient();
  const box = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<string>(w.connecting);
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const term = new Xterm({
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"), fontSize: 13, scrollback: 5_000, theme: themeOf(el), screenReaderMode: true,
      // A link in a machine's output is only opened after the user has
      // confirmed its target.
      linkHandler: { activate: (_e, uri) => void (/^https?:\/\//.test(uri) && confirm(w.openLink(uri)) && open(uri, "_blank", "noopener,noreferrer")) },
    });
    const fit = new FitAddon();
    term.loadAddon(fit);
    term.open(el);
    fit.fit();
    // After Escape, Tab leaves the terminal, so that keyboard users are not
    // trapped in it.
    let leaving = false;
    term.attachCustomKeyEventHandler((e) => {
      const leave = leaving && e.key === "Tab";
      if (e.type === "keydown") leaving = e.key === "Escape";
      return !leave;
    });
    const pty = new Pty(() => client.pty(id), name, { columns: term.cols, rows: term.rows }, {
      output: (bytes) => term.write(bytes.slice()),
      attached: () => setState(""),
      gap: () => term.write(`\r\n\x1b[2m${w.gap}\x1b[0m\r\n`),
      ended: (code) => setState(w.ended(code)),
      lost: (why, final) => setState(final ? why || w.noMachine : w.lost),
    });
    const typed = term.onData((text) => pty.type(text));
    const sized = term.onResize((size) => pty.resize(size.cols, size.rows));
    const watch = new ResizeObserver(() => fit.fit());
    watch.observe(el);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const repaint = () => (term.options.theme = themeOf(el));
    dark.addEventListener("change", repaint);
    return () => {
      dark.removeEventListener("change", repaint);
      watch.disconnect();
      typed.dispose();
      sized.dispose();
      pty.close();
      term.dispose();
    };
  }, [client, id, name]);
  return (
    <div className="terminal">
      <div className="terminal-box" ref={box} role="group" aria-label={w.terminal(name)} />
      {state && (
        <p className="terminal-state small" role="status">
          {state}
        </p>
      )}
    </div>
  );
}
