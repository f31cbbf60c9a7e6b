import { useContext, useRef, useState, type FormEvent } from "react";
import { newKey } from "../api/key";
import { asFailure, useClient, useLoad } from "../api/use";
import { useKey } from "../keys";
import { choiceOf, refOf, type Choice } from "../models/choice";
import { ModelFields } from "../models/ModelFields";
import { Dialog } from "../parts/Dialog";
import { Icon } from "../parts/Icon";
import { Loading, Problem } from "../parts/State";
import { toastFailure } from "../parts/toast";
import { words } from "../words";
import { TurnContext } from "./turns";

const w = words.agent;

/** Actions for a failed last run: run it again, with the same or another model. */
export function RetryRun() {
  const of = useContext(TurnContext);
  const client = useClient();
  const [busy, setBusy] = useState(false);
  const [picking, pick] = useState(false);
  const key = useRef(newKey());
  const off = !of?.free || busy;
  const retry = () => {
    if (!of) return;
    setBusy(true);
    client
      .retry(of.id, {}, key.current)
      .then(of.done, toastFailure)
      .finally(() => setBusy(false));
  };
  useKey("r", retry, !off);
  if (!of) return null;
  const title = of.free ? w.retryRunTitle : w.turn.works;
  return (
    <div className="ended-acts">
      <button type="button" className="button first small" disabled={off} title={title} onClick={retry}>
        <Icon name="refresh" /> {w.retryRun}
      </button>
      <button type="button" className="button small" disabled={off} title={title} onClick={() => pick(true)}>
        {w.retryWith}
      </button>
      {picking && <RetryWith id={of.id} used={of.model} close={() => pick(false)} done={of.done} />}
    </div>
  );
}

/** Asks for the model with which to continue. */
function RetryWith({ id, used, close, done }: { id: string; used: string; close: () => void; done: () => void }) {
  const client = useClient();
  const models = useLoad(client.models, []);
  const [picked, pick] = useState<Choice>();
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const key = useRef(newKey());
  const items = models.data?.items ?? [];
  const before = choiceOf(used);
  const other = items.find((m) => m.id !== before.id);
  const choice = picked ?? (other ? { id: other.id, params: {} } : before);
  const chosen = refOf(choice);
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    if (!chosen) return;
    setBusy(true);
    try {
      await client.retry(id, { model: chosen }, key.current);
      close();
      done();
    } catch (e) {
      key.current = newKey();
      setProblem(asFailure(e).message);
      setBusy(false);
    }
  };
  return (
    <Dialog title={w.retryWithTitle} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <div className="body">
          <p className="muted">{w.retryWithLead}</p>
          {models.loading ? (
            <Loading rows={1} />
          ) : (
            <div className="form-grid">
              <ModelFields models={items} choice={choice} set={(next) => pick(next.id === before.id && next.id !== choice.id ? before : next)} label={(m) => (m.id === before.id ? w.retryCurrent(m.displayName) : m.displayName)} />
            </div>
          )}
          {(problem || models.failure) && <Problem>{problem || models.failure?.message}</Problem>}
        </div>
        <footer>
          <span className="grow" />
          <button type="button" className="button quiet" onClick={close}>
            {words.spawn.cancel}
          </button>
          <button type="submit" className="button first" disabled={busy || !chosen}>
            {w.retryGo}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
