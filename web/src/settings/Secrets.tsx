import { useState, type FormEvent } from "react";
import type { SecretOwner } from "../api/client";
import type { Secret, SecretType } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { Icon } from "../parts/Icon";
import { Failed, Loading, Problem } from "../parts/State";
import { since, useNow } from "../parts/time";
import { toast, toastFailure } from "../parts/toast";
import { useMay } from "../api/session";
import { words } from "../words";

const w = words.settings.secrets;
const shared = ["personal", "team"] as const;

/** Secrets of the user, the team or an environment: set and delete. Their values are never shown. */
export function Secrets({ environment = "", may = true }: { environment?: string; may?: boolean }) {
  const client = useClient();
  const admin = useMay("admin");
  const member = useMay("member");
  const { data, failure, loading, reload } = useLoad(() => client.secrets(environment), [environment], 15_000);
  const items = data?.items.filter((s) => (s.owner === "environment") === (environment !== ""));
  const ownerOf = (s: Secret): SecretOwner => (s.owner === "environment" ? { environment } : s.owner);
  const now = useNow();
  const drop = (s: Secret) => {
    if (!confirm(w.sure(s.name))) return;
    client.deleteSecret(ownerOf(s), s.name).then(reload, toastFailure);
  };
  return (
    <section className="card padded stack">
      <h2>{w.title}</h2>
      <p className="small muted">{environment ? words.environments.secretsLead : w.lead}</p>
      {loading && <Loading rows={3} />}
      {failure && !data && <Failed failure={failure} retry={reload} />}
      {items?.length === 0 && <p className="muted small">{w.none}</p>}
      <ul className="list">
        {items?.map((s) => (
          <li key={s.id} className="line">
            <Icon name="key" />
            <code className="cut grow">{s.name}</code>
            {!environment && <span className="badge">{w.owner[s.owner]}</span>}
            <span className="small muted wide-only">{w.type[s.type]}</span>
            <span className="small faint">{since(s.createdAt, now)}</span>
            {(s.owner === "team" ? admin : may && member) && (
              <button type="button" className="button quiet square small" aria-label={w.drop(s.name)} onClick={() => drop(s)}>
                <Icon name="close" />
              </button>
            )}
          </li>
        ))}
      </ul>
      {may && member && <Add environment={environment} admin={admin} done={reload} />}
    </section>
  );
}

function Add({ environment, admin, done }: { environment: string; admin: boolean; done: () => void }) {
  const client = useClient();
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const [type, setType] = useState<SecretType>("runtime_secret");
  const [owner, setOwner] = useState<(typeof shared)[number]>("personal");
  const [problem, setProblem] = useState("");
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setProblem("");
    try {
      const { warning } = await client.putSecret(environment ? { environment } : owner, name.trim(), value, type);
      setName("");
      setValue("");
      toast(warning ?? words.settings.saved, warning !== undefined);
      done();
    } catch (e) {
      setProblem(asFailure(e).message);
    }
  };
  return (
    <form className="stack" onSubmit={(e) => void submit(e)}>
      <div className="form-grid">
        <div className="field">
          <label htmlFor="secret-name">{w.name}</label>
          <input id="secret-name" className="input mono" required autoComplete="off" spellCheck={false} value={name} onChange={(e) => setName(e.target.value)} />
        </div>
        <div className="field">
          <label htmlFor="secret-value">{w.value}</label>
          <input id="secret-value" className="input mono" type="password" required autoComplete="off" value={value} onChange={(e) => setValue(e.target.value)} />
        </div>
        {!environment && (
          <div className="field">
            <label htmlFor="secret-owner">{w.ownerLabel}</label>
            <select id="secret-owner" className="input" value={owner} onChange={(e) => setOwner(e.target.value as (typeof shared)[number])}>
              {(admin ? shared : shared.slice(0, 1)).map((o) => (
                <option key={o} value={o}>
                  {w.owner[o]}
                </option>
              ))}
            </select>
          </div>
        )}
        <div className="field">
          <label htmlFor="secret-type">{w.typeLabel}</label>
          <select id="secret-type" className="input" value={type} onChange={(e) => setType(e.target.value as SecretType)}>
            {(Object.keys(w.type) as SecretType[]).map((t) => (
              <option key={t} value={t}>
                {w.type[t]}
              </option>
            ))}
          </select>
        </div>
      </div>
      {problem && <Problem>{problem}</Problem>}
      <div className="row">
        <button type="submit" className="button" disabled={!name.trim() || !value}>
          {w.set}
        </button>
      </div>
    </form>
  );
}
