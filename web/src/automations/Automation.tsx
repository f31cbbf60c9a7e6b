import { useState } from "react";
import { newKey } from "../api/key";
import { useMay } from "../api/session";
import type { Automation as Of, AutomationStart } from "../api/types";
import { useClient, useLoad } from "../api/use";
import { shownLine } from "../parts/clip";
import { Icon } from "../parts/Icon";
import { Empty, Failed, Loading, Problem } from "../parts/State";
import { since, useNow } from "../parts/time";
import { toast, toastFailure } from "../parts/toast";
import { go, link } from "../route";
import { words } from "../words";
import { Editor } from "./Editor";
import { StartDialog } from "./StartDialog";
import { startTones, tones, when } from "./spec";

const w = words.automations;

/** One automation: its state, its history, and how to start it. */
export default function Automation({ id }: { id: string }) {
  const client = useClient();
  const may = useMay("member");
  const { data, failure, loading, reload } = useLoad(() => client.automation(id), [id], 15_000);
  const history = useLoad(() => client.automationStarts(id), [id], 5_000);
  const [editing, edit] = useState(false);
  const [starting, start] = useState(false);
  if (failure && !data) return <Failed failure={failure} retry={reload} top />;
  if (loading || !data) return <Loading />;
  const renew = () => {
    reload();
    history.reload();
  };
  const toggle = () => client.updateAutomation(id, { state: data.state === "active" ? "paused" : "active" }).then(renew, toastFailure);
  const remove = () => {
    if (!confirm(w.removeSure(data.spec.name))) return;
    client.deleteAutomation(id).then(() => {
      toast(w.removed(data.spec.name));
      go({ page: "automations" });
    }, toastFailure);
  };
  return (
    <>
      <header className="top">
        <a className="button quiet square small" {...link({ page: "automations" })} aria-label={w.back}>
          <Icon name="left" />
        </a>
        <h1 className="cut grow" dir="auto">
          {shownLine(data.spec.name)}
        </h1>
        <span className="badge" data-tone={tones[data.state]}>
          {w.state[data.state]}
        </span>
      </header>
      <div className="scroll">
        <div className="wide">
          <Facts of={data} />
          {may && (
            <p className="row wrap">
              <button type="button" className="button small first" onClick={() => start(true)}>
                {w.start}
              </button>
              <button type="button" className="button small" onClick={() => void toggle()}>
                {data.state === "active" ? w.pause : w.activate}
              </button>
              {!data.source && (
                <>
                  <button type="button" className="button small" onClick={() => edit(true)}>
                    {w.edit}
                  </button>
                  <button type="button" className="button small danger" onClick={remove}>
                    {w.remove}
                  </button>
                </>
              )}
            </p>
          )}
          <h2>{w.history}</h2>
          {history.loading ? (
            <Loading />
          ) : history.failure && !history.data ? (
            <Failed failure={history.failure} retry={history.reload} />
          ) : history.data?.items.length === 0 ? (
            <Empty icon="list" title={w.noStarts}>
              <p>{w.noStartsLead}</p>
            </Empty>
          ) : (
            <ul className="list">{history.data?.items.map((s) => <Start key={s.id} of={s} may={may} reload={renew} />)}</ul>
          )}
        </div>
      </div>
      {editing && <Editor of={data} close={() => edit(false)} done={reload} />}
      {starting && <StartDialog of={data} requestKey={newKey()} close={() => start(false)} done={renew} />}
    </>
  );
}

function Facts({ of }: { of: Of }) {
  return (
    <>
      {of.reason && <Problem>{shownLine(of.reason)}</Problem>}
      <p className="muted small">
        {[of.spec.repository, when(of.spec), of.nextAt && w.next(new Date(of.nextAt).toLocaleString())].filter(Boolean).join(" · ")}
      </p>
      {of.source && <p className="muted small">{w.source(of.source.path)}</p>}
      <pre className="card small prompt-text" tabIndex={0}>
        {of.spec.prompt}
      </pre>
    </>
  );
}

const waits = ["backlog", "queued"];
const works = ["starting", "running"];

function Start({ of, may, reload }: { of: AutomationStart; may: boolean; reload: () => void }) {
  const client = useClient();
  const now = useNow();
  const act = (what: Promise<unknown>, done: string) =>
    what.then(() => {
      toast(done);
      reload();
    }, toastFailure);
  return (
    <li className="card line wrap">
      <span className="badge" data-tone={startTones[of.state]}>
        {w.starts[of.state]}
      </span>
      <span className="start-words">
        <span className="muted small">{[w.trigger[of.trigger], since(of.createdAt, now), of.cost ? `$${of.cost.toFixed(2)}` : ""].filter(Boolean).join(" · ")}</span>
        {(of.reason ?? of.result) && (
          <span className="small" dir="auto">
            {shownLine(of.reason ?? of.result ?? "")}
          </span>
        )}
      </span>
      {of.agentId && (
        <a className="button small" {...link({ page: "agent", id: of.agentId, tab: "conversation" })}>
          {w.agent}
        </a>
      )}
      {may && of.state === "backlog" && (
        <button type="button" className="button small" onClick={() => void act(client.promoteStart(of.automationId, of.id), w.started)}>
          {w.startNow}
        </button>
      )}
      {may && [...waits, ...works].includes(of.state) && (
        <button type="button" className="button small" onClick={() => void act(client.cancelStart(of.automationId, of.id), w.cancelled)}>
          {w.cancel}
        </button>
      )}
    </li>
  );
}
