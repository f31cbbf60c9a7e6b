import { useState } from "react";
import { asFailure, useClient, useLoad } from "../api/use";
import { useDraft } from "../parts/draft";
import { Failed, Loading, Problem } from "../parts/State";
import { toast } from "../parts/toast";
import { useMay } from "../api/session";
import { words } from "../words";

const w = words.settings.rules;
const files = ["permissions.json", "sandbox.json", "hooks.json", "rules.md", "skills.md", "skills-draft.md", "deny-after"] as const;
const owners = ["me", "team"] as const;

/** The policy files: commands that run without approval, the sandbox's access, hooks, and how long an approval
 * waits. */
export function Rules() {
  const [owner, setOwner] = useState<(typeof owners)[number]>("me");
  const [name, setName] = useState<(typeof files)[number]>("permissions.json");
  return (
    <section className="card padded stack">
      <h2>{w.title}</h2>
      <p className="small muted">{w.lead}</p>
      <div className="row wraps">
        <div className="pick" role="group" aria-label={w.whose}>
          {owners.map((o) => (
            <button
              key={o} type="button" aria-pressed={o === owner}
              onClick={() => {
                setOwner(o);
                if (name === "skills-draft.md") setName("skills.md");
              }}
            >
              {w.owner[o]}
            </button>
          ))}
        </div>
        <div className="pick" role="group" aria-label={w.which}>
          {files.filter((f) => owner === "team" || f !== "skills-draft.md").map((f) => (
            <button key={f} type="button" aria-pressed={f === name} onClick={() => setName(f)}>
              {f}
            </button>
          ))}
        </div>
      </div>
      <Rule key={`${owner}/${name}`} owner={owner} name={name} />
    </section>
  );
}

function Rule({ owner, name }: { owner: (typeof owners)[number]; name: (typeof files)[number] }) {
  const client = useClient();
  const admin = useMay("admin");
  const member = useMay("member");
  const may = owner === "team" ? admin : member;
  const { data, failure, loading, reload } = useLoad(() => client.rule(owner, name), [owner, name]);
  const [draft, setDraft, clear] = useDraft<string | null>(`rule.${owner}.${name}`, null);
  const [problem, setProblem] = useState("");
  const [warnings, setWarnings] = useState<readonly string[]>([]);
  const text = draft ?? data?.text ?? "";
  const dirty = draft !== null && draft !== data?.text;
  const save = () => {
    setProblem("");
    setWarnings([]);
    client.putRule(owner, name, text).then(
      (kept) => {
        setWarnings(kept.warnings ?? []);
        toast(words.settings.saved);
        clear();
        reload();
      },
      (e: unknown) => setProblem(asFailure(e).message),
    );
  };
  const publish = () => {
    setProblem("");
    client.publishSkills(text).then(
      () => {
        toast(w.published);
        reload();
      },
      (e: unknown) => setProblem(asFailure(e).message),
    );
  };
  if (loading && !data) return <Loading rows={3} />;
  if (failure && !data) return <Failed failure={failure} retry={reload} />;
  return (
    <>
      <div className="field">
        <label htmlFor="rule">{w.names[name]}</label>
        {name === "deny-after" ? (
          <input id="rule" className="input mono" readOnly={!may} placeholder={w.denyAfterHint} value={text} onChange={(e) => setDraft(e.target.value)} />
        ) : (
          <textarea id="rule" className="input mono" rows={8} spellCheck={false} readOnly={!may} placeholder={w.none} value={text} onChange={(e) => setDraft(e.target.value)} />
        )}
      </div>
      {problem && <Problem>{problem}</Problem>}
      {warnings.map((one) => (
        <Problem key={one} tone="amber">
          {one}
        </Problem>
      ))}
      {may ? (
        <div className="row">
          <button type="button" className="button" disabled={!dirty} onClick={save}>
            {w.save}
          </button>
          {name === "skills-draft.md" && !dirty && text !== "" && (
            <button type="button" className="button" onClick={publish}>
              {w.publish}
            </button>
          )}
          {dirty && (
            <button type="button" className="button quiet" onClick={clear}>
              {words.environments.discard}
            </button>
          )}
        </div>
      ) : (
        <p className="small faint">{words.settings.team.leadOthers}</p>
      )}
    </>
  );
}
