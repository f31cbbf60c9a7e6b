import { useRef, useState, type FormEvent } from "react";
import { newKey } from "../api/key";
import { asFailure, useClient } from "../api/use";
import { Dialog } from "../parts/Dialog";
import { Problem } from "../parts/State";
import { go } from "../route";
import { words } from "../words";

const w = words.agent;

/** Asks for the prompt of a fork, creates it and opens it. */
export function Fork({ id, turn = 0, close }: { id: string; turn?: number; close: () => void }) {
  const client = useClient();
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const key = useRef(newKey());
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setBusy(true);
    try {
      const { items } = await client.fork(id, { prompt: { text }, ...(turn > 0 ? { turn } : {}) }, key.current);
      close();
      if (items[0]) go({ page: "agent", id: items[0].agent.id, tab: "conversation" });
    } catch (e) {
      setProblem(asFailure(e).message);
      setBusy(false);
    }
  };
  return (
    <Dialog title={w.forkTitle} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <div className="body">
          <p className="muted">{turn > 0 ? w.forkTurnLead(turn) : w.forkLead}</p>
          <div className="field">
            <label htmlFor="fork-text">{w.forkPrompt}</label>
            <textarea id="fork-text" className="input" rows={4} dir="auto" value={text} onChange={(e) => setText(e.target.value)} />
          </div>
          {problem && <Problem>{problem}</Problem>}
        </div>
        <footer>
          <span className="grow" />
          <button type="button" className="button quiet" onClick={close}>
            {words.spawn.cancel}
          </button>
          <button type="submit" className="button first" disabled={busy || !text.trim()}>
            {w.forkGo}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
