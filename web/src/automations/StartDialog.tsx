import { useState, type FormEvent } from "react";
import type { Automation, Trial } from "../api/types";
import { useMay } from "../api/session";
import { asFailure, useClient } from "../api/use";
import { Dialog } from "../parts/Dialog";
import { Problem } from "../parts/State";
import { toast } from "../parts/toast";
import { words } from "../words";

const w = words.automations;

type Value = string | number | boolean;

/** Asks for the inputs of an automation, and starts it, adds it to the backlog, or shows its prompt. */
export function StartDialog({ of, requestKey, close, done }: { of: Automation; requestKey: string; close: () => void; done: () => void }) {
  const client = useClient();
  const admin = useMay("admin");
  const inputs = of.spec.inputs ?? [];
  const [values, setValues] = useState<Record<string, Value>>(() => Object.fromEntries(inputs.filter((i) => i.default !== undefined).map((i) => [i.name, i.default as Value])));
  const [event, setEvent] = useState("");
  const [trial, setTrial] = useState<Trial>();
  const [problem, setProblem] = useState("");
  const [key] = useState(requestKey);
  const run = async (act: () => Promise<void>) => {
    setProblem("");
    try {
      await act();
    } catch (e) {
      setProblem(asFailure(e).message);
    }
  };
  const start = (later: boolean) =>
    run(async () => {
      await client.startAutomation(of.id, values, later, `${key}${later}`);
      toast(later ? w.backlogged : w.started);
      done();
      close();
    });
  const submit = (e: FormEvent) => {
    e.preventDefault();
    void start(false);
  };
  const set = (name: string, v: Value) => setValues((all) => ({ ...all, [name]: v }));
  return (
    <Dialog title={of.spec.name} close={close}>
      <form onSubmit={submit}>
        <div className="body">
          {inputs.map((i) => (
            <div className="field" key={i.name}>
              <label htmlFor={`in-${i.name}`}>{i.description ?? i.name}</label>
              {i.type === "choice" ? (
                <select id={`in-${i.name}`} className="input" required={i.required} value={String(values[i.name] ?? "")} onChange={(e) => set(i.name, e.target.value)}>
                  {i.default === undefined && <option value="" />}
                  {i.options?.map((o) => <option key={o}>{o}</option>)}
                </select>
              ) : i.type === "boolean" ? (
                <input id={`in-${i.name}`} type="checkbox" checked={values[i.name] === true} onChange={(e) => set(i.name, e.target.checked)} />
              ) : (
                <input id={`in-${i.name}`} className="input" required={i.required} type={i.type === "number" ? "number" : "text"} step="any" value={String(values[i.name] ?? "")} onChange={(e) => set(i.name, i.type === "number" ? e.target.valueAsNumber : e.target.value)} />
              )}
            </div>
          ))}
          {admin && of.spec.on?.event && (
            <div className="field">
              <label htmlFor="in-event-id">{w.event}</label>
              <input id="in-event-id" className="input mono" spellCheck={false} value={event} onChange={(e) => setEvent(e.target.value)} />
            </div>
          )}
          {trial && (trial.accepted ? <pre className="card small prompt-text" tabIndex={0} aria-label={w.trial}>{trial.prompt}</pre> : <Problem>{`${w.wouldNot}: ${trial.reason ?? ""}`}</Problem>)}
          {problem && <Problem>{problem}</Problem>}
        </div>
        <footer className="wrap">
          <button type="button" className="button" onClick={() => void run(async () => setTrial(await client.tryAutomation(of.id, values, event.trim())))}>
            {w.try}
          </button>
          <span className="grow" />
          <button type="button" className="button" onClick={() => void start(true)}>
            {w.startLater}
          </button>
          <button type="submit" className="button first">
            {w.start}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
