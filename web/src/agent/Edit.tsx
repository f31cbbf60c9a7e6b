import { useState, type FormEvent } from "react";
import type { Agent } from "../api/types";
import { asFailure, useClient } from "../api/use";
import { Dialog } from "../parts/Dialog";
import { Problem } from "../parts/State";
import { toast } from "../parts/toast";
import { go } from "../route";
import { refreshAgents } from "../store/agents";
import { words } from "../words";

const w = words.agent;

/** Renames an agent, or deletes it. */
export function Edit({ agent, reload, close }: { agent: Agent; reload: () => void; close: () => void }) {
  const client = useClient();
  const [name, setName] = useState(agent.name ?? "");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const act = (what: Promise<unknown>, done: () => void) => {
    setBusy(true);
    what.then(
      () => {
        refreshAgents();
        close();
        done();
      },
      (e: unknown) => {
        setProblem(asFailure(e).message);
        setBusy(false);
      },
    );
  };
  const rename = (e: FormEvent) => {
    e.preventDefault();
    act(client.rename(agent.id, name.trim()), reload);
  };
  const remove = () => {
    if (!confirm(w.removeSure)) return;
    act(client.remove(agent.id), () => {
      go({ page: "agents" });
      toast(w.removed);
    });
  };
  return (
    <Dialog title={w.edit} close={close}>
      <form onSubmit={rename}>
        <div className="body">
          <div className="field">
            <label htmlFor="agent-name">{w.name}</label>
            <input id="agent-name" className="input" dir="auto" maxLength={100} value={name} onChange={(e) => setName(e.target.value)} onFocus={(e) => e.target.select()} />
            <span className="hint">{w.nameHint}</span>
          </div>
          <div className="field">
            <button type="button" className="button danger small" disabled={busy} onClick={remove}>
              {w.remove}
            </button>
            <span className="hint">{w.removeLead}</span>
          </div>
          {problem && <Problem>{problem}</Problem>}
        </div>
        <footer>
          <span className="grow" />
          <button type="button" className="button quiet" onClick={close}>
            {words.spawn.cancel}
          </button>
          <button type="submit" className="button first" disabled={busy || !name.trim() || name.trim() === agent.name}>
            {w.rename}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
