import { useEffect, useRef, useState, type FormEvent, type KeyboardEvent } from "react";
import { asFailure, offline, useClient } from "../api/use";
import { Copy } from "../parts/Copy";
import { Empty, Failed } from "../parts/State";
import type { Failure } from "../api/transport";
import { words } from "../words";
import { Screen } from "./screen";

const w = words.desktop;

const soonest = 500; // milliseconds before reconnecting for the first time
const latest = 10_000;
const lookEvery = 3_000; // milliseconds between checks while there is no desktop

type State =
  | { is: "looking" | "shown" | "lost" }
  | { is: "none"; reason: string; hint: string }
  | { is: "asked"; name: boolean }
  | { is: "refused"; words: string }
  | { is: "failed"; failure: Failure };

/** The desktop of an agent's machine. It is view-only at first; the user can take control. */
export default function Desktop({ id }: { id: string }) {
  const client = useClient();
  const box = useRef<HTMLDivElement>(null);
  const whole = useRef<HTMLDivElement>(null);
  const screen = useRef<Screen>(undefined);
  const keyboard = useRef<HTMLTextAreaElement>(null);
  const [state, setState] = useState<State>({ is: "looking" });
  const [round, setRound] = useState(0);
  const [control, setControl] = useState(false);
  const [fit, setFit] = useState(true);
  const [full, setFull] = useState(false);
  const [clip, setClip] = useState(false);
  const [theirs, setTheirs] = useState("");
  const leaving = useRef(false);
  const requested = useRef({ control, fit });
  requested.current = { control, fit };

  const settle = () => {
    const s = screen.current;
    if (!s) return;
    const { control, fit } = requested.current;
    s.viewOnly = !control;
    s.scaleViewport = fit;
    s.clipViewport = s.dragViewport = !fit && !control; // in view-only mode the user pans by dragging
  };
  useEffect(settle, [control, fit]);

  useEffect(() => {
    let over = false;
    let timer = 0;
    let wait = soonest;
    const after = (ms: number) => {
      if (!over) timer = window.setTimeout(look, ms);
    };
    const again = () => {
      after(wait);
      wait = Math.min(wait * 2, latest);
    };
    const connect = () => {
      if (!box.current) return;
      screen.current = new Screen(box.current, client.desktopSocket(id), w.label, {
        shown: () => {
          wait = soonest;
          settle();
          setState({ is: "shown" });
        },
        lost: () => {
          screen.current = undefined;
          setState({ is: "lost" });
          again();
        },
        refused: (why, said) => {
          screen.current = undefined;
          setState({ is: "refused", words: w.refused[why](said) });
        },
        asked: (name) => setState({ is: "asked", name }),
        copied: setTheirs,
      });
      settle();
    };
    const look = () => {
      if (document.hidden) return after(soonest);
      client.desktop(id).then(
        (d) => {
          if (over) return;
          offline.set(false);
          if (d.running) return connect();
          setState({ is: "none", reason: d.reason ?? "", hint: d.hint ?? "" });
          after(lookEvery);
        },
        (e: unknown) => {
          if (over) return;
          const failure = asFailure(e);
          offline.set(failure.offline);
          setState((s) => (failure.offline && s.is === "lost" ? s : { is: "failed", failure }));
          if (failure.offline) again();
        },
      );
    };
    look();
    return () => {
      over = true;
      clearTimeout(timer);
      screen.current?.end();
      screen.current = undefined;
    };
  }, [client, id, round]);

  useEffect(() => {
    const changed = () => setFull(document.fullscreenElement === whole.current);
    document.addEventListener("fullscreenchange", changed);
    return () => document.removeEventListener("fullscreenchange", changed);
  }, []);

  // After Escape, Tab leaves the desktop, so that keyboard users are not
  // trapped in it.
  const keys = (e: KeyboardEvent) => {
    if (leaving.current && e.key === "Tab") e.stopPropagation();
    else leaving.current = e.key === "Escape";
  };
  const shown = state.is === "shown";
  const take = (on: boolean) => {
    setControl(on);
    if (on) screen.current?.focus();
  };
  return (
    <div className="desktop" ref={whole} data-full={full || undefined}>
      <div className="agents-tools">
        <div className="pick" role="group" aria-label={w.mode}>
          <button type="button" aria-pressed={!control} onClick={() => take(false)}>
            {w.watch}
          </button>
          <button type="button" aria-pressed={control} onClick={() => take(true)}>
            {w.takeOver}
          </button>
        </div>
        <button type="button" className="button quiet small" aria-pressed={fit} disabled={!shown} onClick={() => setFit(!fit)}>
          {w.fit}
        </button>
        <button type="button" className="button quiet small" aria-expanded={clip && control} disabled={!shown || !control} onClick={() => setClip(!clip)}>
          {w.clipboard}
          {theirs && !clip && <i className="dot" data-tone="blue" role="img" aria-label={w.copied} />}
        </button>
        <button type="button" className="button quiet small" disabled={!shown || !control} onClick={() => screen.current?.sendCtrlAltDel()}>
          {w.ctrlAltDel}
        </button>
        <button type="button" className="button quiet small touch-only" disabled={!shown || !control} onClick={() => keyboard.current?.focus()}>
          {w.keyboard}
        </button>
        {document.fullscreenEnabled && (
          <button type="button" className="button quiet small" onClick={() => void (full ? document.exitFullscreen() : whole.current?.requestFullscreen())}>
            {full ? w.leaveFull : w.full}
          </button>
        )}
        <span className="grow" />
        <span className="small faint">{w.leave}</span>
      </div>
      {clip && control && <Clipboard theirs={theirs} send={(text) => screen.current?.clipboardPasteFrom(text)} />}
      <div className="desktop-box" onKeyDownCapture={keys}>
        <div className="desktop-screen" ref={box} hidden={!shown && state.is !== "lost"} />
        <textarea
          className="desktop-keyboard" ref={keyboard} aria-label={w.keyboardLabel} autoCapitalize="off" autoCorrect="off" autoComplete="off" spellCheck={false} tabIndex={-1} value=" "
          onChange={(e) => screen.current?.type(e.target.value === "" ? "\b" : e.target.value.replace(/^ /, ""))}
        />
        {state.is === "looking" && (
          <p className="terminal-state small" role="status">
            {w.starting}
          </p>
        )}
        {state.is === "none" && (
          <Empty icon="machine" title={w.none}>
            <p>{state.reason}</p>
            <p>{w.noneLead}</p>
            <p>{state.hint}</p>
          </Empty>
        )}
        {state.is === "asked" && <Password name={state.name} give={(given) => screen.current?.sendCredentials(given)} />}
        {state.is === "refused" && (
          <Empty icon="warn" title={w.refusedTitle}>
            <p>{state.words}</p>
            <button type="button" className="button" onClick={() => setRound(round + 1)}>
              {words.state.retry}
            </button>
          </Empty>
        )}
        {state.is === "failed" && <Failed failure={state.failure} retry={() => setRound(round + 1)} />}
        {state.is === "lost" && (
          <p className="terminal-state small" role="status">
            {words.machine.lost}
          </p>
        )}
      </div>
    </div>
  );
}

/**
 * Exchange of text between the user's clipboard and the machine's; nothing is
 * copied automatically.
 */
function Clipboard({ theirs, send }: { theirs: string; send: (text: string) => void }) {
  const [mine, setMine] = useState("");
  const [sent, setSent] = useState(false);
  const submit = (e: FormEvent) => {
    e.preventDefault();
    send(mine);
    setSent(true);
  };
  const paste = () =>
    navigator.clipboard?.readText().then(
      (text) => setMine(text),
      () => undefined, // the browser does not permit it, and reports that itself
    );
  return (
    <form className="desktop-clipboard" onSubmit={submit}>
      <div className="field">
        <div className="row">
          <label htmlFor="desktop-theirs" className="label grow">{w.theirs}</label>
          <Copy text={theirs} label={w.copy} />
        </div>
        <textarea id="desktop-theirs" className="input" rows={3} readOnly value={theirs} placeholder={w.nothing} />
      </div>
      <div className="field">
        <div className="row">
          <label htmlFor="desktop-mine" className="label grow">{w.mine}</label>
          <button type="button" className="button quiet small" onClick={paste}>
            {w.paste}
          </button>
          <button type="submit" className="button small" disabled={mine === ""}>
            {sent ? w.sent : w.send}
          </button>
        </div>
        <textarea
          id="desktop-mine" className="input" rows={3} value={mine}
          onChange={(e) => {
            setMine(e.target.value);
            setSent(false);
          }}
        />
      </div>
    </form>
  );
}

/** The form for a desktop with its own password, which is not stored. */
function Password({ name, give }: { name: boolean; give: (given: { username?: string; password: string }) => void }) {
  const [given, setGiven] = useState({ username: "", password: "" });
  const submit = (e: FormEvent) => {
    e.preventDefault();
    give(name ? given : { password: given.password });
  };
  return (
    <Empty icon="key" title={w.asked}>
      <form className="stack" onSubmit={submit} autoComplete="off">
        <p>{w.askedLead}</p>
        {name && <input className="input" aria-label={w.userName} placeholder={w.userName} required value={given.username} onChange={(e) => setGiven({ ...given, username: e.target.value })} />}
        <input className="input" type="password" aria-label={w.password} placeholder={w.password} autoComplete="off" required value={given.password} onChange={(e) => setGiven({ ...given, password: e.target.value })} />
        <button type="submit" className="button first">
          {w.goIn}
        </button>
      </form>
    </Empty>
  );
}
