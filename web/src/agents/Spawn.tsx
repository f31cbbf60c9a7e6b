import { useRef, useState, type FormEvent } from "react";
import { newKey } from "../api/key";
import type { CreateAgent, RunMode } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { keyName } from "../keys";
import { refOf, type Choice } from "../models/choice";
import { ModelFields } from "../models/ModelFields";
import { Dialog } from "../parts/Dialog";
import { useDraft } from "../parts/draft";
import { Icon } from "../parts/Icon";
import { limitsOf, type Bounds } from "../parts/limits";
import { imagesOf, Pictures, usePictures } from "../parts/Pictures";
import { Problem } from "../parts/State";
import { go } from "../route";
import { words } from "../words";
import { closeSpawn } from "./spawn";
import { repoName } from "../parts/status";
import { refreshAgents } from "../store/agents";
import { shownLine } from "../parts/clip";

const w = words.spawn;
type Form = { text: string; repo?: string; ref: string; model: string; params?: Choice["params"]; environment: string; runMode: RunMode; plan: boolean; pull: boolean; checks?: string; goal?: string } & Bounds;
const bounds = ["turns", "tokens", "dollars", "minutes"] as const;
const empty: Form = { text: "", ref: "", model: "", environment: "", runMode: "", plan: false, pull: false };

/** requestOf returns the request for a new agent. */
export function requestOf(f: Form): CreateAgent {
  const out: CreateAgent = { prompt: { text: f.text.trim() } };
  const url = f.repo?.trim();
  if (url) out.repos = [{ url, ...(f.ref.trim() ? { startingRef: f.ref.trim() } : {}) }];
  const model = refOf({ id: f.model, params: f.params ?? {} });
  if (model) out.model = model;
  if (f.environment) out.env = { type: "cloud", name: f.environment };
  if (f.runMode) out.runMode = f.runMode;
  if (f.plan) out.mode = "plan";
  if (f.pull && url) out.autoCreatePR = true;
  const limits = limitsOf(f);
  if (limits) out.limits = limits;
  const checks = (f.checks ?? "").split("\n").map((c) => c.trim()).filter(Boolean);
  if (checks.length > 0) out.checks = checks;
  if (f.goal?.trim()) out.goal = f.goal.trim();
  return out;
}

/** The dialog for a new agent. The input is kept until it is sent. */
export default function Spawn() {
  const client = useClient();
  const [form, setForm, clear] = useDraft<Form>("spawn", empty);
  const pictures = usePictures();
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const key = useRef(newKey()); // idempotency key, so that a retry does not create a second agent
  const repos = useLoad(client.repositories, []);
  const models = useLoad(client.models, []);
  const environments = useLoad(client.environments, []);
  const settings = useLoad(client.settings, []);
  const set = (change: Partial<Form>) => {
    key.current = newKey();
    setForm((old) => ({ ...old, ...change }));
  };
  const standard = settings.data?.defaultRepository ?? "";
  const [held, hold] = useState<string>(); // the text when the field got the focus, so that a default that is loaded later does not change the user's input
  const repo = form.repo ?? held ?? (standard || (repos.data?.items[0]?.url ?? "")); // the repository used last, until the user enters another
  const onlyScripted = models.data?.items.every((m) => m.id === "scripted");

  const submit = async (e: FormEvent) => {
    e.preventDefault();
    if (busy) return;
    if (!form.text.trim()) return setProblem(w.needPrompt);
    setBusy(true);
    setProblem("");
    try {
      const body = requestOf({ ...form, repo });
      if (pictures.pictures.length > 0) body.prompt.images = imagesOf(pictures.pictures);
      const { agent } = await client.spawn(body, key.current);
      clear();
      refreshAgents();
      closeSpawn();
      go({ page: "agent", id: agent.id, tab: "conversation" });
    } catch (e) {
      setProblem(asFailure(e).message.replace(/^[\w.[\]]+(?=: )/, (field) => w.fields[field] ?? field));
      setBusy(false);
    }
  };

  return (
    <Dialog title={w.title} close={closeSpawn}>
      <form
        onSubmit={(e) => void submit(e)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) void submit(e);
        }}
      >
        <div className="body">
          <div className="field drop" data-over={pictures.over ? "" : undefined} {...pictures.handlers}>
            <label htmlFor="spawn-text">{w.prompt}</label>
            <textarea
              id="spawn-text" className="input" rows={6} autoFocus value={form.text} placeholder={w.promptHint} dir="auto"
              onChange={(e) => set({ text: e.target.value })}
            />
          </div>
          <Pictures pictures={pictures.pictures} remove={pictures.remove} />
          <div className="form-grid">
            <div className="field">
              <label htmlFor="spawn-repo">{w.repo}</label>
              <input
                id="spawn-repo" className="input" list="spawn-repos" autoComplete="off" spellCheck={false} value={repo} placeholder={w.repoHint} aria-describedby="spawn-repo-hint"
                onFocus={() => hold(repo)} onBlur={() => hold(undefined)} onChange={(e) => set({ repo: e.target.value })}
              />
              <datalist id="spawn-repos">{repos.data?.items.map((r) => <option key={r.url} value={r.url} />)}</datalist>
              <span className="hint" id="spawn-repo-hint">
                {repo.trim() ? "" : standard ? w.standardRepo(repoName(standard)) : w.noRepo}
              </span>
            </div>
            <div className="field">
              <label htmlFor="spawn-ref">{w.ref}</label>
              <input id="spawn-ref" className="input" autoComplete="off" spellCheck={false} value={form.ref} placeholder={w.refHint} onChange={(e) => set({ ref: e.target.value })} />
            </div>
            <ModelFields models={models.data?.items ?? []} choice={{ id: form.model, params: form.params ?? {} }} standard={w.modelDefault} set={({ id, params }) => set({ model: id, params })} />
            <div className="field">
              <label htmlFor="spawn-environment">{w.environment}</label>
              <select id="spawn-environment" className="input" value={form.environment} onChange={(e) => set({ environment: e.target.value })}>
                <option value="">{w.environmentDefault}</option>
                {environments.data?.items.map((x) => (
                  <option key={x.id} value={x.name}>
                    {shownLine(x.name)}
                  </option>
                ))}
              </select>
            </div>
          </div>
          <div className="field">
            <label htmlFor="spawn-mode">{w.runMode}</label>
            <select id="spawn-mode" className="input" value={form.runMode} aria-describedby="spawn-mode-hint" onChange={(e) => set({ runMode: e.target.value as RunMode })}>
              {(Object.keys(w.runModes) as (keyof typeof w.runModes)[]).map((m) => (
                <option key={m} value={m}>
                  {w.runModes[m]}
                </option>
              ))}
            </select>
            <span className="hint" id="spawn-mode-hint">
              {w.runModeHint[form.runMode as keyof typeof w.runModeHint]}
            </span>
          </div>
          <div className="field">
            <label className="row">
              <input type="checkbox" checked={form.plan} onChange={(e) => set({ plan: e.target.checked })} aria-describedby="spawn-plan-hint" /> {w.plan}
            </label>
            <span className="hint" id="spawn-plan-hint">
              {w.planHint}
            </span>
          </div>
          <div className="field">
            <label className="row">
              <input type="checkbox" checked={form.pull && repo.trim() !== ""} disabled={!repo.trim()} onChange={(e) => set({ pull: e.target.checked })} aria-describedby="spawn-pull-hint" /> {w.pull}
            </label>
            <span className="hint" id="spawn-pull-hint">
              {w.pullHint}
            </span>
          </div>
          <details open={Boolean(form.checks || form.goal) || bounds.some((b) => form[b])}>
            <summary>{w.more}</summary>
            <div className="field">
              <label htmlFor="spawn-checks">{w.checks}</label>
              <textarea id="spawn-checks" className="input mono" rows={2} spellCheck={false} value={form.checks ?? ""} placeholder="make test" aria-describedby="spawn-checks-hint" onChange={(e) => set({ checks: e.target.value })} />
              <span className="hint" id="spawn-checks-hint">
                {w.checksHint}
              </span>
            </div>
            <div className="field">
              <label htmlFor="spawn-goal">{w.goal}</label>
              <textarea id="spawn-goal" className="input" rows={2} maxLength={4096} dir="auto" value={form.goal ?? ""} aria-describedby="spawn-goal-hint" onChange={(e) => set({ goal: e.target.value })} />
              <span className="hint" id="spawn-goal-hint">
                {w.goalHint}
              </span>
            </div>
            <fieldset className="form-grid limits" aria-describedby="spawn-limits-hint">
              <legend>{w.limits}</legend>
              {bounds.map((b) => (
                <div className="field" key={b}>
                  <label htmlFor={`spawn-${b}`}>{w.bounds[b]}</label>
                  <input id={`spawn-${b}`} className="input" type="number" min="0" step={b === "dollars" ? "any" : "1"} value={form[b] ?? ""} placeholder={w.unbound} onChange={(e) => set({ [b]: e.target.value })} />
                </div>
              ))}
            </fieldset>
            <span className="hint" id="spawn-limits-hint">
              {w.limitsHint}
            </span>
          </details>
          {onlyScripted && <Problem tone="amber">{w.onlyScripted}</Problem>}
          {(problem || pictures.problem) && <Problem>{problem || pictures.problem}</Problem>}
        </div>
        <footer>
          <span className="faint small grow">{form.text && w.draft}</span>
          <button type="button" className="button quiet" onClick={closeSpawn}>
            {w.cancel}
          </button>
          <button type="submit" className="button first" disabled={busy}>
            {busy ? <Icon name="spinner" spin /> : null}
            {busy ? w.going : w.go} <kbd aria-hidden="true">{keyName("mod+")}↵</kbd>
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
