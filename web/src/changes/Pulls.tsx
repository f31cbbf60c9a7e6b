import { useEffect, useRef, useState, type FormEvent } from "react";
import { repoName } from "../parts/status";
import { newKey } from "../api/key";
import type { Agent, PullRequest } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { Dialog } from "../parts/Dialog";
import { shownLine } from "../parts/clip";
import { useDraft } from "../parts/draft";
import { Icon } from "../parts/Icon";
import { Problem } from "../parts/State";
import { useMay } from "../api/session";
import { words } from "../words";
import { PullActs, ReviewFacts } from "./PullActs";
import { address, rowsOf, standOf, toneOfCheck, toneOfPull, pullRequestOf, type PullForm, type Row } from "./pulls";
import type { PullsSeen } from "./seen";
import { pullURL } from "./turns";

const w = words.pulls;

/** The pull requests of an agent, with a form to open one for a branch that has none. */
export function Pulls({ agent, branch, seen: { data, failure, reload } }: { agent: Agent; branch: string; seen: PullsSeen }) {
  const may = useMay("member");
  const [made, setMade] = useState<PullRequest[]>([]);
  const [form, setForm] = useState<Row>();
  const [turning, setTurning] = useState(false);
  useEffect(() => setTurning(false), [data, failure]);
  const rows = rowsOf(agent, made, data?.items).filter((r) => r.pull || branch);
  if (rows.length === 0) return null;
  const again = () => {
    setTurning(true);
    reload();
  };
  const first = rows.find((r) => r.pull?.url);
  return (
    <section className="pulls" aria-label={w.title}>
      <ul>
        {rows.map((r) => (
          <PullRow key={`${r.repo} ${r.pull?.branch ?? ""}`} agent={agent} row={r} named={rows.length > 1} open={may && agent.status === "ACTIVE" ? () => setForm(r) : undefined} again={r === first ? again : undefined} turning={turning} />
        ))}
      </ul>
      {failure && <Problem tone="amber">{w.unseen(failure.message)}</Problem>}
      {form && (
        <OpenPull
          agent={agent} row={form} branch={form.pull?.branch ?? branch} close={() => setForm(undefined)}
          done={(p) => {
            setMade((old) => [...old, p]);
            reload();
            setForm(undefined);
          }}
        />
      )}
    </section>
  );
}

type RowProps = { agent: Agent; row: Row; named: boolean; open: (() => void) | undefined; again: (() => void) | undefined; turning: boolean };

/** One pull request with its state on the forge, or a note that there is none. */
export function PullRow({ agent, row: { repo, pull: p }, named, open, again, turning }: RowProps) {
  const stand = p?.url ? standOf(p) : undefined;
  return (
    <li className="pull">
      <div className="row">
        <Icon name="branch" />
        <div className="pull-name">
          {p?.url ? (
            <a href={address(p.url)} target="_blank" rel="noreferrer noopener" title={p.title} dir="auto">
              <strong className="cut">{shownLine(p.title || w.untitled)}</strong> <span className="muted">#{p.number}</span>
            </a>
          ) : (
            <span className="muted">{w.none}</span>
          )}
          {(named || p?.base) && <span className="small faint cut">{[named && repoName(repo), p?.base && w.into(p.branch, p.base)].filter(Boolean).join(", ")}</span>}
        </div>
        {stand && (
          <span className="badge" data-tone={toneOfPull[stand]}>
            {w.stand[stand]}
          </span>
        )}
        {p && stand === "open" && <ReviewFacts pull={p} />}
        {p && <PullActs agent={agent} pull={p} />}
        {again && (
          <button type="button" className="button quiet square small" aria-label={w.refresh} title={w.refresh} disabled={turning} onClick={again}>
            <Icon name="refresh" spin={turning} />
          </button>
        )}
        {open && (!stand || stand === "closed" || stand === "merged") && (
          <button type="button" className="button small" aria-label={named ? w.of(stand ? w.another : w.open, repoName(repo)) : undefined} onClick={open}>
            {stand ? w.another : w.open}
          </button>
        )}
      </div>
      {p?.checks && p.checks.length > 0 && (
        <details>
          <summary className="small">
            <span className="dot" data-tone={toneOfCheck[p.checksState ?? "neutral"]} /> {w.checks(p.checks)}
          </summary>
          <ul className="small">
            {p.checks.map((c, i) => (
              <li key={i} className="row">
                <span className="dot" data-tone={toneOfCheck[c.state]} />
                <span className="cut check-name" dir="auto">
                  {address(c.url) ? (
                    <a href={address(c.url)} target="_blank" rel="noreferrer noopener">
                      {shownLine(c.name)}
                    </a>
                  ) : (
                    shownLine(c.name)
                  )}
                </span>
                <span className="faint">{w.check[c.state]}</span>
                {c.summary && (
                  <span className="muted cut" dir="auto" title={shownLine(c.summary)}>
                    {shownLine(c.summary)}
                  </span>
                )}
              </li>
            ))}
          </ul>
        </details>
      )}
      {p?.error && <Problem tone="amber">{p.error.message}</Problem>}
      {p?.reviewError && <Problem tone="amber">{p.reviewError.message}</Problem>}
      {p?.unseen && <Problem tone="amber">{w.unseen(p.unseen.message)}</Problem>}
    </li>
  );
}

type OpenProps = { agent: Agent; row: Row; branch: string; close: () => void; done: (p: PullRequest) => void };

/** The form for a pull request. The input is kept until the pull request is open. */
export function OpenPull({ agent, row, branch, close, done }: OpenProps) {
  const client = useClient();
  const old = row.pull?.url ? undefined : row.pull; // a failed attempt
  const [form, setForm, clear] = useDraft<PullForm>(`pull.${agent.id}.${row.repo}`, { ...(old?.title && { title: old.title }), draft: old?.draft ?? false });
  const { data: proposed, failure, loading } = useLoad(() => client.proposePullRequest(agent.id, row.repo), [agent.id, row.repo]);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const key = useRef(newKey());
  const forge = pullURL(row.repo, branch);
  const set = (change: Partial<PullForm>) => {
    key.current = newKey();
    setForm((f) => ({ ...f, ...change }));
  };
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    if (busy) return;
    setBusy(true);
    setProblem("");
    try {
      const p = await client.openPullRequest(agent.id, pullRequestOf(row.repo, form, proposed), key.current);
      clear();
      done(p);
    } catch (e) {
      const failure = asFailure(e);
      if (!failure.offline) key.current = newKey(); // after an error response, a retry is a new request
      setProblem(failure.message.replace(/^\w+(?=: )/, (field) => w.fields[field] ?? field));
      setBusy(false);
    }
  };
  return (
    <Dialog title={w.open} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <div className="body">
          <p className="small muted">{w.from(repoName(row.repo), branch)}</p>
          <div className="field">
            <label htmlFor="pull-title">{w.fields["title"]}</label>
            <input id="pull-title" className="input" autoFocus autoComplete="off" dir="auto" maxLength={250} value={form.title ?? proposed?.title ?? ""} placeholder={loading ? w.proposing : w.titleHint} onChange={(e) => set({ title: e.target.value })} />
          </div>
          <div className="field">
            <label htmlFor="pull-body">{w.fields["body"]}</label>
            <textarea id="pull-body" className="input" rows={8} dir="auto" value={form.body ?? proposed?.body ?? ""} placeholder={loading ? w.proposing : w.bodyHint} onChange={(e) => set({ body: e.target.value })} />
          </div>
          <div className="field">
            <label htmlFor="pull-base">{w.fields["base"]}</label>
            <input id="pull-base" className="input" autoComplete="off" spellCheck={false} value={form.base ?? proposed?.base ?? ""} placeholder={row.pull?.base ?? w.baseHint} onChange={(e) => set({ base: e.target.value })} />
          </div>
          <div className="field">
            <label className="row">
              <input type="checkbox" checked={form.draft} onChange={(e) => set({ draft: e.target.checked })} aria-describedby="pull-draft-hint" /> {w.draft}
            </label>
            <span className="hint" id="pull-draft-hint">
              {w.draftHint}
            </span>
          </div>
          {problem ? <Problem>{problem}</Problem> : failure && !failure.offline && <Problem>{failure.message}</Problem>}
        </div>
        <footer>
          {forge && (
            <a className="small muted" href={forge} target="_blank" rel="noreferrer noopener">
              {w.byForge}
            </a>
          )}
          <span className="grow" />
          <button type="button" className="button quiet" onClick={close}>
            {w.cancel}
          </button>
          <button type="submit" className="button first" disabled={busy}>
            {busy ? <Icon name="spinner" spin /> : null}
            {busy ? w.opening : w.go}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
