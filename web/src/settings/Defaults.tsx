import { useState } from "react";
import type { Settings } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { Failed, Loading, Problem } from "../parts/State";
import { toast } from "../parts/toast";
import { useMay } from "../api/session";
import { words } from "../words";

const w = words.settings.team;
const texts = ["defaultRepository", "baseBranch"] as const;
const limits = ["maxTurns", "maxTokens", "maxCostUsd", "maxSeconds"] as const;
const days = ["retentionDays", "machineRetentionDays"] as const;
const switches = ["displayAgentSummary", "displayAgentSummaryExternally", "privacyMode", "fixFailedChecks"] as const;
type Mode = Settings["networkMode"];

/** The defaults for new agents, for admins. Each change is saved at once. */
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
  const remembered = data?.memoryRepositories.join("\n") ?? "";
  const list = data?.networkAllowlist.join("\n") ?? "";
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
            <div className="field">
              <label htmlFor="fast-model">{w.fastModel}</label>
              <select id="fast-model" className="input" disabled={!admin} value={data.fastModel} onChange={(e) => save({ fastModel: e.target.value })}>
                <option value="">{words.spawn.modelDefault}</option>
                {models.data?.items.map((m) => (
                  <option key={m.id} value={m.id}>
                    {m.displayName}
                  </option>
                ))}
              </select>
            </div>
            {texts.map((name) => (
              <Entry key={`${name}-${data[name]}`} id={name} words={w.texts[name]} value={data[name]} may={admin} save={(text) => save({ [name]: text })} />
            ))}
            {days.map((name) => (
              <Entry key={`${name}-${data[name]}`} id={name} words={w.days[name]} number={{ max: 3650 }} value={String(data[name])} may={admin} save={(text) => save({ [name]: Number(text) })} />
            ))}
            {limits.map((name) => {
              const unit = name === "maxSeconds" ? 60 : 1; // shown in minutes
              return <Entry key={`${name}-${data[name]}`} id={name} words={w.limits[name]} number={{ step: name === "maxCostUsd" ? "any" : 1 }} value={String(data[name] / unit)} may={admin} save={(text) => save({ [name]: Number(text) * unit })} />;
            })}
          </div>
          {switches.map((name) => (
            <label key={name} className="switch">
              <input type="checkbox" disabled={!admin || (name === "displayAgentSummaryExternally" && (!data.displayAgentSummary || data.privacyMode))} checked={data[name]} onChange={(e) => save({ [name]: e.target.checked })} />
              <span>
                {w.switches[name].name}
                <span className="hint">{w.switches[name].hint}</span>
              </span>
            </label>
          ))}
          <div className="field">
            <label htmlFor="memory">{w.memory.name}</label>
            <select id="memory" className="input" disabled={!admin} aria-describedby="memory-hint" value={data.memory} onChange={(e) => save({ memory: e.target.value as Settings["memory"] })}>
              {(Object.keys(w.memory.modes) as Settings["memory"][]).map((m) => (
                <option key={m} value={m}>
                  {w.memory.modes[m]}
                </option>
              ))}
            </select>
            <span className="hint" id="memory-hint">
              {w.memory.hint}
            </span>
          </div>
          {data.memory !== "off" && (
            <Entry key={`memory ${remembered}`} id="memoryRepositories" words={w.memory.list} rows={Math.max(2, Math.min(12, data.memoryRepositories.length + 1))} value={remembered} may={admin} save={(text) => save({ memoryRepositories: text.split(/\s+/).filter(Boolean) })} />
          )}
          <div className="field">
            <label htmlFor="network-mode">{w.network.name}</label>
            <select id="network-mode" className="input" disabled={!admin} aria-describedby="network-mode-hint" value={data.networkMode} onChange={(e) => save({ networkMode: e.target.value as Mode })}>
              {(Object.keys(w.network.modes) as Mode[]).map((m) => (
                <option key={m} value={m}>
                  {w.network.modes[m]}
                </option>
              ))}
            </select>
            <span className="hint" id="network-mode-hint">
              {w.network.hint}
            </span>
          </div>
          {data.networkMode !== "allow_all" && (
            <Entry key={list} id="networkAllowlist" words={w.network.list} rows={Math.max(3, Math.min(12, data.networkAllowlist.length + 1))} value={list} may={admin} save={(text) => save({ networkAllowlist: text.split(/\s+/).filter(Boolean) })} />
          )}
        </>
      )}
    </section>
  );
}

type EntryOf = { id: string; words: { name: string; hint: string }; value: string; may: boolean; save: (text: string) => void; number?: { max?: number; step?: number | "any" }; rows?: number };

/** A text field that is saved when it loses the focus. */
function Entry({ id, words: { name, hint }, value, may, save, number, rows = 0 }: EntryOf) {
  const [text, setText] = useState(value);
  const now = text.trim() || (number ? "0" : "");
  const done = () => now !== value && save(now);
  const common = { id, disabled: !may, value: text, "aria-describedby": `${id}-hint`, onChange: (e: { target: { value: string } }) => setText(e.target.value), onBlur: done };
  return (
    <div className="field">
      <label htmlFor={id}>{name}</label>
      {rows > 0 ? (
        <textarea {...common} className="input mono" rows={rows} spellCheck={false} />
      ) : (
        <input {...common} className="input" {...(number ? { type: "number", min: 0, ...number } : {})} onKeyDown={(e) => e.key === "Enter" && done()} />
      )}
      <span className="hint" id={`${id}-hint`}>
        {hint}
      </span>
    </div>
  );
}
