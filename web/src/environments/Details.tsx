import { useState, type FormEvent } from "react";
import { newKey } from "../api/key";
import type { EnvironmentDetail } from "../api/types";
import { asFailure, useClient } from "../api/use";
import { Dialog } from "../parts/Dialog";
import { useDraft } from "../parts/draft";
import { Problem } from "../parts/State";
import { go } from "../route";
import { useMay } from "../api/session";
import { words } from "../words";

const w = words.environments;
const owners = ["personal", "team"] as const;
const first = `{
  // Installs what the project needs; it runs when the environment is built.
  "install": ""
}
`;

/** The form for the name and repositories of a new or existing environment. */
export function Details({ of, close, done }: { of?: EnvironmentDetail; close: () => void; done?: () => void }) {
  const client = useClient();
  const admin = useMay("admin");
  const start = { name: of?.name ?? "", repos: of?.repos.map((r) => r.url).join("\n") ?? "", owner: of?.owner ?? ("personal" as const), key: newKey() };
  const [form, setForm, clear] = useDraft(`environment.details.${of?.id ?? "new"}`, start);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setBusy(true);
    setProblem("");
    const said = { name: form.name.trim(), repos: form.repos.split("\n").map((url) => ({ url: url.trim() })).filter((r) => r.url) };
    try {
      if (of) await client.updateEnvironment(of.id, said);
      else go({ page: "environments", id: (await client.createEnvironment({ ...said, owner: form.owner, environmentJson: first }, form.key)).id });
      clear();
      done?.();
      close();
    } catch (e) {
      setBusy(false);
      const failure = asFailure(e);
      setProblem(failure.message);
      if (!failure.offline) setForm((f) => ({ ...f, key: newKey() })); // the next submission is a new request
    }
  };
  return (
    <Dialog title={of ? w.edit : w.add} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <div className="body">
          <div className="field">
            <label htmlFor="env-name">{w.addName}</label>
            <input id="env-name" className="input" required maxLength={255} value={form.name} onChange={(e) => setForm({ ...form, name: e.target.value })} />
          </div>
          <div className="field">
            <label htmlFor="env-repos">{w.addRepos}</label>
            <textarea id="env-repos" className="input mono" rows={3} spellCheck={false} required={!of} placeholder={words.spawn.repoHint} value={form.repos} onChange={(e) => setForm({ ...form, repos: e.target.value })} />
          </div>
          {!of && admin && (
            <div className="field">
              <label htmlFor="env-owner">{w.addOwner}</label>
              <select id="env-owner" className="input" value={form.owner} onChange={(e) => setForm({ ...form, owner: e.target.value as (typeof owners)[number] })}>
                {owners.map((o) => (
                  <option key={o} value={o}>
                    {w.addOwners[o]}
                  </option>
                ))}
              </select>
            </div>
          )}
          {problem && <Problem>{problem}</Problem>}
        </div>
        <footer>
          <span className="grow" />
          <button type="button" className="button" onClick={close}>
            {words.spawn.cancel}
          </button>
          <button type="submit" className="button first" disabled={busy}>
            {w.addGo}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
