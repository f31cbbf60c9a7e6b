import { useState, type FormEvent } from "react";
import type { Secret, SecretType } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { Icon } from "../parts/Icon";
import { Problem } from "../parts/State";
import { since, useNow } from "../parts/time";
import { toast } from "../parts/toast";
import { words } from "../words";

const w = words.settings.secrets;
type Owner = "personal" | "team";

/** Secrets: they are set and deleted, and their values are never shown. */
export function Secrets() {
  const client = useClient();
  const { data, failure, reload } = useLoad(client.secrets, [], 15_000);
  const now = useNow();
  const drop = (s: Secret) => {
    if (s.owner === "environment" || !confirm(w.sure(s.name))) return;
    client.deleteSecret(s.owner, s.name).then(reload, (e: unknown) => toast(asFailure(e).message, true));
  };
  return (
    <section className="card padded stack">
      <h2>{w.title}</h2>
      <p className="small muted">{w.lead}</p>
      {failure && !data && <Problem>{failure.message}</Problem>}
      {data?.items.length === 0 && <p className="muted small">{w.none}</p>}
      <ul className="list">
        {data?.items.map((s) => (
          <li key={s.id} className="line">
            <Icon name="key" />
            <code className="cut grow">{s.name}</code>
            <span className="badge">{w.owner[s.owner]}</span>
            <span className="small muted wide-only">{w.type[s.type]}</span>
            <span className="small faint">{since(s.createdAt, now)}</span>
            <button type="button" className="button quiet square small" aria-label={w.drop(s.name)} disabled={s.owner === "environment"} onClick={() => drop(s)}>
              <Icon name="close" />
            </button>
          </li>
        ))}
      </ul>
      <Add done={reload} />
    </section>
  );
}

function Add({ done }: { done: () => void }) {
  const client = useClient();
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const [type, setType] = useState<SecretType>("runtime_secret");
  const [owner, setOwner] = useState<Owner>("personal");
  const [problem, setProblem] = useState("");
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setProblem("");
    try {
      const { warning } = await client.putSecret(owner, name.trim(), value, type);
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
        <div className="field">
          <label htmlFor="secret-owner">{w.ownerLabel}</label>
          <select id="secret-owner" className="input" value={owner} onChange={(e) => setOwner(e.target.value as Owner)}>
            <option value="personal">{w.owner.personal}</option>
            <option value="team">{w.owner.team}</option>
          </select>
        </div>
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
