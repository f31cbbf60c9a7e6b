import { useState } from "react";
import type { Settings } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { Failed, Loading, Problem } from "../parts/State";
import { toast } from "../parts/toast";
import { useMay } from "../session";
import { words } from "../words";

const w = words.settings.team;
type Texts = "defaultRepository" | "baseBranch";
type Numbers = "retentionDays" | "machineRetentionDays";
type Limits = "maxTurns" | "maxTokens" | "maxCostUsd" | "maxSeconds";
type Switches = "displayAgentSummary" | "displayAgentSummaryExternally" | "privacyMode";

/** What an admin settles for new agents. Each change is saved at once. */
export function Defaults() {
  const client = useClient();
  const admin = useMay("admin");
  const { data, failure, loading, reload } = useLoad(client.settings, []);
  const models = useLoad(client.models, []);
  const [problem, setProblem] = useState("");
  const save = (change: Partial<Settings>) => {
    setProblem("");
    client.updateSettings(change).then(
      () => {
        toast(words.settings.saved);
        reload();
      },
      (e: unknown) => {
        setProblem(asFailure(e).message);
        reload();
      },
    );
  };
  return (
    <section className="card padded stack">
      <h2>{w.title}</h2>
      <p className="small muted">{admin ? w.lead : w.leadOthers}</p>
      {loading && !data && <Loading rows={4} />}
      {failure && !data && <Failed failure={failure} retry={reload} />}
      {problem && <Problem>{problem}</Problem>}
      {data && (
        <>
          <div className="form-grid">
            <div className="field">
              <label htmlFor="default-model">{w.model}</label>
              <select id="default-model" className="input" disabled={!admin} value={data.defaultModel} onChange={(e) => save({ defaultModel: e.target.value })}>
                <option value="">{words.spawn.modelDefault}</option>
                {models.data?.items.map((m) => (
                  <option key={m.id} value={m.id}>
                    {m.displayName}
                  </option>
                ))}
              </select>
            </div>
            {(["defaultRepository", "baseBranch"] as Texts[]).map((name) => (
              <Text key={`${name}-${data[name]}`} name={name} value={data[name]} may={admin} save={(text) => save({ [name]: text })} />
            ))}
            {(["retentionDays", "machineRetentionDays"] as Numbers[]).map((name) => (
              <Amount key={`${name}-${data[name]}`} id={name} words={w.days[name]} value={data[name]} most={3650} may={admin} save={(days) => save({ [name]: days })} />
            ))}
            {(["maxTurns", "maxTokens", "maxCostUsd", "maxSeconds"] as Limits[]).map((name) => {
              const unit = name === "maxSeconds" ? 60 : 1; // people write minutes
              return <Amount key={`${name}-${data[name]}`} id={name} words={w.limits[name]} value={data[name] / unit} whole={name !== "maxCostUsd"} may={admin} save={(n) => save({ [name]: n * unit })} />;
            })}
          </div>
          {(["displayAgentSummary", "displayAgentSummaryExternally", "privacyMode"] as Switches[]).map((name) => (
            <label key={name} className="switch">
              <input type="checkbox" disabled={!admin || (name === "displayAgentSummaryExternally" && (!data.displayAgentSummary || data.privacyMode))} checked={data[name]} onChange={(e) => save({ [name]: e.target.checked })} />
              <span>
                {w.switches[name].name}
                <span className="hint">{w.switches[name].hint}</span>
              </span>
            </label>
          ))}
        </>
      )}
    </section>
  );
}

function Text({ name, value, may, save }: { name: Texts; value: string; may: boolean; save: (text: string) => void }) {
  const [text, setText] = useState(value);
  const done = () => text.trim() !== value && save(text.trim());
  return (
    <div className="field">
      <label htmlFor={name}>{w.texts[name].name}</label>
      <input id={name} className="input" disabled={!may} value={text} onChange={(e) => setText(e.target.value)} onBlur={done} onKeyDown={(e) => e.key === "Enter" && done()} />
      <span className="hint">{w.texts[name].hint}</span>
    </div>
  );
}

function Amount({ id, words: { name, hint }, value, most, whole = true, may, save }: { id: string; words: { name: string; hint: string }; value: number; most?: number; whole?: boolean; may: boolean; save: (n: number) => void }) {
  const [text, setText] = useState(String(value));
  const done = () => {
    const n = Number(text || "0");
    if ((whole ? Number.isInteger(n) : Number.isFinite(n)) && n !== value) save(n);
  };
  return (
    <div className="field">
      <label htmlFor={id}>{name}</label>
      <input id={id} className="input" type="number" min="0" max={most} step={whole ? 1 : "any"} disabled={!may} value={text} onChange={(e) => setText(e.target.value)} onBlur={done} onKeyDown={(e) => e.key === "Enter" && done()} />
      <span className="hint">{hint}</span>
    </div>
  );
}
