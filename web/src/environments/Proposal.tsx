import { useEffect, useRef, useState, type ReactNode } from "react";
import { newKey } from "../api/key";
import type { Agent } from "../api/types";
import { asFailure, useClient } from "../api/use";
import { useDraft } from "../parts/draft";
import { Icon } from "../parts/Icon";
import { Problem } from "../parts/State";
import { toast, toastFailure } from "../parts/toast";
import { go, link } from "../route";
import { words } from "../words";
import { EnvironmentText } from "./Text";
import { shownLine } from "../parts/clip";

const w = words.setUp;

/**
 * A draft of an environment.json: the initial text and the current one. theirs is the agent's
 * proposal as it was when the draft was started.
 */
export type Draft = { text: string; given: string; why: string[]; snapshot: string; theirs: string };
export const given = (text: string, more: Partial<Draft> = {}): Draft => ({ text, given: text, why: [], snapshot: "", theirs: "", ...more });

/** useProposal stores the draft in this tab, across reloads. */
export const useProposal = (id: string) => useDraft(`setup.${id}`, given(""));

/** The heading of a machine's set-up. Its button discards the set-up, unless `instead` replaces the button. */
export function Head({ agent, instead, children }: { agent: Agent; instead?: ReactNode; children?: ReactNode }) {
  const client = useClient();
  const discard = () => {
    if (!confirm(w.discardSure)) return;
    client.archive(agent.id).then(
      () => {
        toast(w.discarded);
        go({ page: "setup" });
      },
      toastFailure,
    );
  };
  return (
    <header className="top">
      <a className="button quiet square small" {...link({ page: "setup" })} aria-label={w.title}>
        <Icon name="left" />
      </a>
      <h1 className="cut grow" dir="auto">
        {shownLine(agent.name ?? "")}
      </h1>
      {children}
      {instead || (
        <button type="button" className="button small danger" onClick={discard}>
          {w.discard}
        </button>
      )}
    </header>
  );
}

type View = keyof typeof w.views;

/** Selects the tab. */
export function Views<V extends View>({ of, view, setView, proposed }: { of: readonly V[]; view: V; setView: (v: V) => void; proposed: boolean }) {
  return (
    <div className="pick" role="group" aria-label={w.viewsLabel}>
      {of.map((v) => (
        <button key={v} type="button" aria-pressed={v === view} disabled={v === "proposal" && !proposed} onClick={() => setView(v)}>
          {w.views[v]}
        </button>
      ))}
    </div>
  );
}

/** Saves the machine's disk; the server then proposes an environment.json. */
export function SaveDisk({ agent, first = false, saved }: { agent: Agent; first?: boolean; saved: (d: Draft) => void }) {
  const client = useClient();
  const [saving, setSaving] = useState(false);
  const save = async () => {
    if (!confirm(w.saveSure)) return;
    setSaving(true);
    try {
      const p = await client.saveDisk(agent.id);
      saved(given(p.environmentJson, { snapshot: p.id, why: [w.savedAs(p.id), ...p.why] }));
      toast(w.savedAs(p.id));
    } catch (e) {
      toastFailure(e);
    }
    setSaving(false);
  };
  return (
    <button type="button" className={first ? "button first" : "button"} disabled={saving} onClick={() => void save()}>
      {saving ? w.saving : w.saveDisk}
    </button>
  );
}

/** The proposed environment.json, which can be edited, tried, and then committed or saved. */
export function Proposal({ agent, draft, setDraft }: { agent: Agent; draft: Draft; setDraft: (now: (old: Draft) => Draft) => void }) {
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
        <p className="small muted">{draft.why.join(" · ")}</p>
        {news.length > 0 && (
          <pre className="block news" tabIndex={0} aria-label={w.news}>
            {news.join("\n")}
          </pre>
        )}
        {outcome && (outcome.bad ? <Problem>{outcome.text}</Problem> : <p role="status">{outcome.text}</p>)}
      </div>
      <EnvironmentText key={draft.given} text={draft.text} first={draft.text} changed={(text) => setDraft((d) => ({ ...d, text }))} save={() => void attempt()} />
    </>
  );
}
