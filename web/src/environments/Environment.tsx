import { useEffect, useRef, useState } from "react";
import type { Build } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { Ansi } from "../parts/Ansi";
import { Code } from "../parts/Code";
import { Icon } from "../parts/Icon";
import { Failed, Loading } from "../parts/State";
import { since, span, useNow } from "../parts/time";
import { toast } from "../parts/toast";
import { link } from "../route";
import { words } from "../words";

const w = words.environments;
const tones: Record<Build["status"], string> = { IN_PROGRESS: "blue", SUCCEEDED: "green", FAILED: "red", CANCELLED: "grey", SKIPPED: "grey" };

/** One environment: what it says, and its builds with their logs. */
export default function Environment({ id }: { id: string }) {
  const client = useClient();
  const { data, failure, loading, reload } = useLoad(() => client.environment(id), [id]);
  const builds = useLoad(() => client.builds(id), [id], 4_000);
  const [shown, show] = useState("");
  const now = useNow();
  if (failure && !data) return <Failed failure={failure} retry={reload} top />;
  if (loading || !data) return <Loading />;
  const running = builds.data?.items.some((b) => b.status === "IN_PROGRESS");
  const build = () => {
    client.startBuild(id).catch((e: unknown) => toast(asFailure(e).message, true));
    setTimeout(builds.reload, 500);
  };
  return (
    <>
      <header className="top">
        <a className="button quiet square small" {...link({ page: "environments" })} aria-label={w.back}>
          <Icon name="left" />
        </a>
        <h1 className="cut grow" dir="auto">
          {data.name}
        </h1>
        <button type="button" className="button small" disabled={running} onClick={build}>
          {w.build}
        </button>
      </header>
      <div className="scroll">
        <div className="wide">
          <section className="stack">
            <h2>environment.json</h2>
            <pre className="block" tabIndex={0}>
              <Code code={data.environmentJson} language="json" />
            </pre>
          </section>
          <section className="stack">
            <h2>{w.builds}</h2>
            {builds.data?.items.length === 0 && <p className="muted">{w.noBuilds}</p>}
            <ul className="list">
              {builds.data?.items.map((b) => (
                <li key={b.id} className="card">
                  <div className="line">
                    <span className="badge" data-tone={tones[b.status]}>
                      <span className="dot" data-tone={tones[b.status]} data-live={b.status === "IN_PROGRESS" ? "" : undefined} />
                      {w.status[b.status]}
                    </span>
                    <span className="grow cut small muted" dir="auto">
                      {b.message ?? w.trigger[b.trigger]}
                    </span>
                    {b.endedAt && <span className="small faint">{span(Date.parse(b.endedAt) - Date.parse(b.createdAt))}</span>}
                    <span className="small faint">{since(b.createdAt, now)}</span>
                    {b.status === "IN_PROGRESS" && (
                      <button type="button" className="button small" onClick={() => void client.cancelBuild(id, b.id).then(builds.reload, (e: unknown) => toast(asFailure(e).message, true))}>
                        {w.cancel}
                      </button>
                    )}
                    <button type="button" className="button quiet small" aria-expanded={shown === b.id} onClick={() => show(shown === b.id ? "" : b.id)}>
                      {w.log}
                    </button>
                  </div>
                  {shown === b.id && <Log environment={id} build={b.id} />}
                </li>
              ))}
            </ul>
          </section>
        </div>
      </div>
    </>
  );
}

const longest = 400_000; // characters of a log that are shown, the newest

/** A build's log, as it comes. */
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
    read().catch((e: unknown) => !over.signal.aborted && setProblem(asFailure(e).message));
    return () => over.abort();
  }, [client, environment, build]);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return (
    <pre className="block log" ref={box} tabIndex={0} aria-label={w.log}>
      {problem ? problem : <Ansi text={text} />}
    </pre>
  );
}
