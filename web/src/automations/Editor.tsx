import { useState, type FormEvent } from "react";
import type { Automation, AutomationState } from "../api/types";
import { asFailure, useClient } from "../api/use";
import { Dialog } from "../parts/Dialog";
import { Problem } from "../parts/State";
import { go } from "../route";
import { words } from "../words";
import { formOf, specOf, type Form } from "./spec";

const w = words.automations;

/** The form for a new or existing automation. */
export function Editor({ of, close, done }: { of?: Automation; close: () => void; done?: () => void }) {
  const client = useClient();
  const [form, setForm] = useState(() => formOf(of?.spec));
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const set = (change: Partial<Form>) => setForm((f) => ({ ...f, ...change }));
  const save = async (state: AutomationState) => {
    let spec;
    try {
      spec = specOf(form, of?.spec);
    } catch {
      return setProblem(w.notJson);
    }
    setBusy(true);
    setProblem("");
    try {
      if (of) await client.updateAutomation(of.id, { spec, version: of.version });
      else go({ page: "automations", id: (await client.createAutomation(spec, state)).id });
      done?.();
      close();
    } catch (e) {
      setBusy(false);
      setProblem(asFailure(e).message);
    }
  };
  const submit = (e: FormEvent) => {
    e.preventDefault();
    void save("active");
  };
  return (
    <Dialog title={of ? w.edit : w.add} close={close}>
      <form onSubmit={submit}>
        <div className="body">
          <Field id="auto-name" label={w.name}>
            <input id="auto-name" className="input" required maxLength={100} value={form.name} onChange={(e) => set({ name: e.target.value })} />
          </Field>
          <Field id="auto-repo" label={w.repository}>
            <input id="auto-repo" className="input mono" required spellCheck={false} placeholder={words.spawn.repoHint} value={form.repository} onChange={(e) => set({ repository: e.target.value })} />
          </Field>
          <Field id="auto-prompt" label={w.prompt}>
            <textarea id="auto-prompt" className="input" rows={5} required placeholder={w.promptHint} value={form.prompt} onChange={(e) => set({ prompt: e.target.value })} />
          </Field>
          <Choice id="auto-when" label={w.when} value={form.trigger} of={w.triggers} pick={(trigger) => set({ trigger })} />
          {form.trigger === "schedule" && (
            <>
              <Field id="auto-cron" label={w.cron}>
                <input id="auto-cron" className="input mono" required spellCheck={false} value={form.cron} onChange={(e) => set({ cron: e.target.value })} />
              </Field>
              <Field id="auto-zone" label={w.zone}>
                <input id="auto-zone" className="input" required spellCheck={false} value={form.zone} onChange={(e) => set({ zone: e.target.value })} />
              </Field>
              <Choice id="auto-missed" label={w.missed} value={form.missed} of={w.missedKinds} pick={(missed) => set({ missed })} />
            </>
          )}
          {form.trigger === "event" && (
            <Field id="auto-filter" label={w.filter}>
              <textarea id="auto-filter" className="input mono" rows={2} spellCheck={false} value={form.filter} onChange={(e) => set({ filter: e.target.value })} />
            </Field>
          )}
          <Choice id="auto-concurrency" label={w.concurrency} value={form.concurrency} of={w.kinds} pick={(concurrency) => set({ concurrency })} />
          <label className="row">
            <input type="checkbox" checked={form.pull} onChange={(e) => set({ pull: e.target.checked })} />
            {w.pull}
          </label>
          <Field id="auto-more" label={w.more}>
            <textarea id="auto-more" className="input mono" rows={4} spellCheck={false} value={form.more} onChange={(e) => set({ more: e.target.value })} />
          </Field>
          {problem && <Problem>{problem}</Problem>}
        </div>
        <footer>
          <span className="grow" />
          <button type="button" className="button" onClick={close}>
            {words.spawn.cancel}
          </button>
          {!of && (
            <button type="button" className="button" disabled={busy} onClick={() => void save("draft")}>
              {w.saveDraft}
            </button>
          )}
          <button type="submit" className="button first" disabled={busy}>
            {w.save}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function Field({ id, label, children }: { id: string; label: string; children: React.ReactNode }) {
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children}
    </div>
  );
}

function Choice<T extends string>({ id, label, value, of, pick }: { id: string; label: string; value: T; of: Record<T, string>; pick: (value: T) => void }) {
  return (
    <Field id={id} label={label}>
      <select id={id} className="input" value={value} onChange={(e) => pick(e.target.value as T)}>
        {(Object.keys(of) as T[]).map((k) => (
          <option key={k} value={k}>
            {of[k]}
          </option>
        ))}
      </select>
    </Field>
  );
}
