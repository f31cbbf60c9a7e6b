import { useEffect, useRef, useState } from "react";
import type { Build, EnvironmentDetail } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { repoName } from "../parts/status";
import { Ansi } from "../parts/Ansi";
import { Failed, Loading } from "../parts/State";
import { since, span, useNow } from "../parts/time";
import { toastFailure } from "../parts/toast";
import { words } from "../words";

const w = words.environments;
const tones: Record<Build["status"], string> = { IN_PROGRESS: "blue", SUCCEEDED: "green", FAILED: "red", CANCELLED: "grey", SKIPPED: "grey" };

/** The builds of an environment, with live logs. */
export function Builds({ of, may }: { of: EnvironmentDetail; may: boolean }) {
  const client = useClient();
  const { data, failure, loading, reload } = useLoad(() => client.builds(of.id), [of.id], 3_000);
  const [shown, show] = useState("");
  const [repo, setRepo] = useState("");
  const [again, setAgain] = useState(false);
  const [asking, setAsking] = useState(false);
  const now = useNow();
  const running = data?.items.some((b) => b.status === "IN_PROGRESS");
  const build = async () => {
    setAsking(true);
    try {
      await client.startBuild(of.id, repo, again);
    } catch (e) {
      toastFailure(e);
    }
    setAsking(false);
    reload();
    const newest = await client.builds(of.id).catch(() => undefined);
    if (newest?.items[0]) show(newest.items[0].id);
  };
  return (
    <section className="stack">
      {may && (
        <div className="line build-now">
          <button type="button" className="button first" disabled={running || asking || of.repos.length === 0} onClick={() => void build()}>
            {w.build}
          </button>
          {of.repos.length > 1 && (
            <select className="input role" aria-label={w.ofRepo} value={repo} onChange={(e) => setRepo(e.target.value)}>
              {of.repos.map((r, i) => (
                <option key={r.url} value={i ? r.url : ""}>
                  {repoName(r.url)}
                </option>
              ))}
            </select>
          )}
          <label className="switch">
            <input type="checkbox" checked={again} onChange={(e) => setAgain(e.target.checked)} />
            {w.again}
          </label>
        </div>
      )}
      {loading && <Loading rows={4} />}
      {failure && !data && <Failed failure={failure} retry={reload} />}
      {data?.items.length === 0 && <p className="muted">{w.noBuilds}</p>}
      <ul className="list">
        {data?.items.map((b) => (
          <li key={b.id} className="card">
            <div className="line">
              <span className="badge" data-tone={tones[b.status]}>
                <span className="dot" data-tone={tones[b.status]} data-live={b.status === "IN_PROGRESS" ? "" : undefined} />
                {w.status[b.status]}
              </span>
              <span className="grow cut small muted" dir="auto" title={b.message}>
                {b.message ?? w.trigger[b.trigger]}
              </span>
              {b.endedAt && <span className="small faint wide-only">{span(Date.parse(b.endedAt) - Date.parse(b.createdAt))}</span>}
              <span className="small faint">{since(b.createdAt, now)}</span>
              {may && b.status === "IN_PROGRESS" && (
                <button type="button" className="button small" onClick={() => void client.cancelBuild(of.id, b.id).then(reload, toastFailure)}>
                  {w.cancel}
                </button>
              )}
              <button type="button" className="button quiet small" aria-expanded={shown === b.id} onClick={() => show(shown === b.id ? "" : b.id)}>
                {w.log}
              </button>
            </div>
            {shown === b.id && b.message && (
              <p className="small muted build-said" dir="auto">
                {b.message}
              </p>
            )}
            {shown === b.id && <Log environment={of.id} build={b.id} />}
          </li>
        ))}
      </ul>
    </section>
  );
}

const longest = 400_000; // maximum number of characters of a log that are shown, the most recent

/** A build's live log. After a lost connection it continues at the same position. */
function Log({ environment, build }: { environment: string; build: string }) {
  const client = useClient();
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const over = new AbortController();
    const read = async () => {
      for await (const piece of client.buildLog(environment, build, over.signal)) setText((old) => (old + piece).slice(-longest));
    };
    let timer = 0;
    const attempt = () => {
      setText("");
      setProblem("");
      read().catch((e: unknown) => {
        if (over.signal.aborted) return;
        setProblem(asFailure(e).message);
        if (asFailure(e).offline) timer = window.setTimeout(attempt, 3_000);
      });
    };
    attempt();
    return () => {
      clearTimeout(timer);
      over.abort();
    };
  }, [client, environment, build]);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return (
    <pre className="block log" ref={box} tabIndex={0} aria-label={w.log}>
      <Ansi text={text} />
      {problem}
    </pre>
  );
}
