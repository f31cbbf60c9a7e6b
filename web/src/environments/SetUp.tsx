import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { newKey } from "../api/key";
import type { Agent } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { useDraft } from "../parts/draft";
import { Icon } from "../parts/Icon";
import { Empty, Failed, Loading, Problem } from "../parts/State";
import { toast } from "../parts/toast";
import { go, link } from "../route";
import { words } from "../words";
import { EnvironmentText } from "./Text";

const Terminal = lazy(() => import("../machine/Terminal"));
const w = words.setUp;

type Draft = { text: string; why: string[]; snapshot: string };
const nothing: Draft = { text: "", why: [], snapshot: "" };

/** A machine that a person sets up: a shell in it, and what is made of it. */
export default function SetUp({ id }: { id: string }) {
  const client = useClient();
  const { data, failure, loading, reload } = useLoad(() => client.agent(id), [id], 2_000);
  const [draft, setDraft] = useDraft(`setup.${id}`, nothing);
  const [view, setView] = useState<"terminal" | "proposal">(draft.snapshot ? "proposal" : "terminal");
  const [saving, setSaving] = useState(false);
  if (failure && !data) return <Failed failure={failure} retry={reload} top />;
  if (loading || !data) return <Loading />;
  const failed = data.runStatus === "ERROR" || data.runStatus === "CANCELLED" || data.runStatus === "EXPIRED";
  const there = !failed && data.runStatus === "FINISHED";
  const steps = { page: "agent", id, tab: "conversation" } as const;
  const save = async () => {
    if (!confirm(w.saveSure)) return;
    setSaving(true);
    try {
      const p = await client.saveDisk(id);
      setDraft({ text: p.environmentJson, why: p.why, snapshot: p.id });
      setView("proposal");
      toast(w.savedAs(p.id));
    } catch (e) {
      toast(asFailure(e).message, true);
    }
    setSaving(false);
  };
  const discard = () => {
    if (!confirm(w.discardSure)) return;
    client.archive(id).then(
      () => {
        toast(w.discarded);
        go({ page: "setup" });
      },
      (e: unknown) => toast(asFailure(e).message, true),
    );
  };
  return (
    <>
      <header className="top">
        <a className="button quiet square small" {...link({ page: "setup" })} aria-label={w.title}>
          <Icon name="left" />
        </a>
        <h1 className="cut grow" dir="auto">
          {data.name}
        </h1>
        <button type="button" className="button small danger" onClick={discard}>
          {w.discard}
        </button>
      </header>
      {!there ? (
        <Empty icon={failed ? "warn" : "machine"} title={failed ? w.failed : w.starting}>
          <p>{data.doing ?? words.machine.bootingLead}</p>
          <a className="button" {...link(steps)}>
            {w.conversation}
          </a>
        </Empty>
      ) : (
        <>
          <div className="agents-tools">
            <div className="pick" role="group" aria-label={w.title}>
              <button type="button" aria-pressed={view === "terminal"} onClick={() => setView("terminal")}>
                {w.terminal}
              </button>
              <button type="button" aria-pressed={view === "proposal"} disabled={!draft.snapshot} onClick={() => setView("proposal")}>
                {words.environments.editor}
              </button>
            </div>
            <button type="button" className={draft.snapshot ? "button" : "button first"} disabled={saving} onClick={() => void save()}>
              {saving ? w.saving : w.saveDisk}
            </button>
            <span className="grow" />
            <span className="small faint">{view === "terminal" && words.machine.leave}</span>
          </div>
          {view === "terminal" ? (
            <>
              <p className="small muted env-problem">{w.typing}</p>
              <Suspense fallback={<Loading />}>
                <Terminal id={id} name="main" />
              </Suspense>
            </>
          ) : (
            <Proposal agent={data} draft={draft} setDraft={setDraft} />
          )}
        </>
      )}
    </>
  );
}

/** The environment.json that is proposed, to be changed, tried, and then committed or kept. */
function Proposal({ agent, draft, setDraft }: { agent: Agent; draft: Draft; setDraft: (now: (old: Draft) => Draft) => void }) {
  const client = useClient();
  const [news, setNews] = useState<string[]>([]);
  const [busy, setBusy] = useState("");
  const [outcome, setOutcome] = useState<{ text: string; bad: boolean }>();
  const over = useRef<AbortController>(null);
  useEffect(() => () => over.current?.abort(), []);
  const run = async (what: string, act: () => Promise<string>) => {
    setBusy(what);
    setOutcome(undefined);
    try {
      setOutcome({ text: await act(), bad: false });
    } catch (e) {
      setOutcome({ text: asFailure(e).message, bad: true });
    }
    setBusy("");
  };
  const attempt = () =>
    run("try", async () => {
      setNews([]);
      over.current = new AbortController();
      const b = await client.tryEnvironment(agent.id, draft.text, over.current.signal, (line) => setNews((all) => [...all.slice(-200), line]));
      if (b.status !== "SUCCEEDED") throw new Error(w.fails(b.message ?? words.environments.status[b.status]));
      return w.works;
    });
  const commit = () =>
    run("commit", async () => {
      const done = await client.commitEnvironment(agent.id, draft.text);
      return w.committed(done.path, done.branch);
    });
  const keep = () =>
    run("keep", async () => {
      const repos = (agent.repos ?? []).flatMap((r) => (r.url ? [{ url: r.url }] : []));
      const e = await client.createEnvironment({ owner: "personal", name: agent.name ?? w.title, repos, environmentJson: draft.text }, newKey());
      go({ page: "environments", id: e.id });
      return words.environments.saved;
    });
  return (
    <>
      <div className="env-problem stack">
        <div className="row wraps">
          <button type="button" className="button" disabled={busy !== ""} onClick={() => void attempt()}>
            {busy === "try" ? w.trying : w.try}
          </button>
          <button type="button" className="button" disabled={busy !== ""} onClick={() => void commit()}>
            {w.commit}
          </button>
          <button type="button" className="button" disabled={busy !== ""} onClick={() => void keep()}>
            {w.keep}
          </button>
        </div>
        <p className="small muted">{[w.savedAs(draft.snapshot), ...draft.why].join(" · ")}</p>
        {news.length > 0 && (
          <pre className="block news" tabIndex={0} aria-label={w.news}>
            {news.join("\n")}
          </pre>
        )}
        {outcome && (outcome.bad ? <Problem>{outcome.text}</Problem> : <p role="status">{outcome.text}</p>)}
      </div>
      <EnvironmentText key={draft.snapshot} text={draft.text} first={draft.text} changed={(text) => setDraft((d) => ({ ...d, text }))} save={() => void attempt()} />
    </>
  );
}
