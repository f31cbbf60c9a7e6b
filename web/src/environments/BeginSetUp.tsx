import { useState, type FormEvent } from "react";
import { newKey } from "../api/key";
import { asFailure, useClient, useLoad } from "../api/use";
import { repoName } from "../parts/status";
import { useDraft } from "../parts/draft";
import { Icon } from "../parts/Icon";
import { Failed, Problem } from "../parts/State";
import { StatusBadge } from "../parts/Status";
import { since, useNow } from "../parts/time";
import { go, link } from "../route";
import { words } from "../words";
import { shownLine } from "../parts/clip";

const w = words.setUp;
type Way = keyof typeof w.ways;
const ways = Object.keys(w.ways) as Way[];
const wayOf = (preset = ""): Way | undefined => ways.find((p) => p === preset);

/**
 * Asks for which repository to set up a machine, and whether a person or an agent does it. Lists
 * the machines that are being set up.
 */
export default function BeginSetUp() {
  const client = useClient();
  const repositories = useLoad(client.repositories, []);
  const agents = useLoad(() => client.agents({}), [], 10_000);
  const open = agents.data?.items.filter((a) => wayOf(a.env.preset) && a.status === "ACTIVE") ?? [];
  const [form, setForm, clear] = useDraft("setup.begin", { way: "setup" as Way, repo: "", ref: "", image: "", key: newKey() });
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const now = useNow();
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setBusy(true);
    setProblem("");
    const repo = form.repo.trim();
    const ref = form.ref.trim();
    const image = form.way === "setup" ? form.image.trim() : "";
    try {
      const { agent } = await client.spawn(
        {
          prompt: { text: w.prompts[form.way] }, name: w.name(repoName(repo)), repos: [{ url: repo, ...(ref ? { startingRef: ref } : {}) }],
          env: { type: "cloud", preset: form.way, ...(image ? { image } : {}) },
        },
        form.key,
      );
      clear();
      go({ page: "setup", id: agent.id });
    } catch (e) {
      setBusy(false);
      const failure = asFailure(e);
      setProblem(failure.message);
      if (!failure.offline) setForm((f) => ({ ...f, key: newKey() }));
    }
  };
  const field = (name: "ref" | "image", label: string, hint: string) => (
    <div className="field">
      <label htmlFor={`setup-${name}`}>{label}</label>
      <input id={`setup-${name}`} className="input" placeholder={hint} spellCheck={false} value={form[name]} onChange={(e) => setForm({ ...form, [name]: e.target.value })} />
    </div>
  );
  return (
    <>
      <header className="top">
        <a className="button quiet square small" {...link({ page: "environments" })} aria-label={words.environments.back}>
          <Icon name="left" />
        </a>
        <h1>{w.title}</h1>
      </header>
      <div className="scroll">
        <div className="wide">
          <form className="card padded stack" onSubmit={(e) => void submit(e)}>
            <div className="pick" role="group" aria-label={w.waysLabel}>
              {ways.map((way) => (
                <button key={way} type="button" aria-pressed={way === form.way} onClick={() => setForm({ ...form, way, key: newKey() })}>
                  {w.ways[way]}
                </button>
              ))}
            </div>
            <p className="muted">{w.leads[form.way]}</p>
            <div className="field">
              <label htmlFor="setup-repo">{w.repo}</label>
              <input id="setup-repo" className="input" required list="setup-repos" placeholder={words.spawn.repoHint} spellCheck={false} value={form.repo} onChange={(e) => setForm({ ...form, repo: e.target.value })} />
              <datalist id="setup-repos">
                {repositories.data?.items.map((r) => (
                  <option key={r.url} value={r.url} />
                ))}
              </datalist>
            </div>
            <div className="form-grid">
              {field("ref", w.ref, w.refHint)}
              {form.way === "setup" && field("image", w.image, w.imageHint)}
            </div>
            {problem && <Problem>{problem}</Problem>}
            <div className="row">
              <button type="submit" className="button first" disabled={busy}>
                {w.go[form.way]}
              </button>
            </div>
          </form>
          {agents.failure && !agents.data && <Failed failure={agents.failure} retry={agents.reload} />}
          {open.length > 0 && (
            <section className="stack">
              <h2>{w.open}</h2>
              <ul className="list">
                {open.map((a) => (
                  <li key={a.id} className="card line">
                    <Icon name={a.env.preset === "setup" ? "machine" : "agents"} />
                    <a className="grow" {...link({ page: "setup", id: a.id })}>
                      <strong className="cut" dir="auto">
                        {shownLine(a.name ?? "")}
                      </strong>
                      <span className="muted small cut">{a.repos?.map((r) => repoName(r.url)).join(", ")}</span>
                    </a>
                    <StatusBadge agent={a} />
                    <span className="small faint">{since(a.createdAt, now)}</span>
                  </li>
                ))}
              </ul>
            </section>
          )}
        </div>
      </div>
    </>
  );
}
