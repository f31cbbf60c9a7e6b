import { lazy, Suspense, useState } from "react";
import { isOpen, repoName } from "../parts/status";
import { asFailure, useClient, useLoad } from "../api/use";
import { PullStrip } from "../changes/PullActs";
import { rowsOf } from "../changes/pulls";
import { usePulls } from "../changes/seen";
import { shownLine } from "../parts/clip";
import { few } from "../few";
import { Icon, type IconName } from "../parts/Icon";
import { cost } from "../parts/money";
import { usedOf } from "../parts/limits";
import { Failed, Loading } from "../parts/State";
import { StatusBadge } from "../parts/Status";
import { span, useNow } from "../parts/time";
import { useTab } from "../parts/title";
import { toast } from "../parts/toast";
import { useKey } from "../keys";
import { go, link, tabs, type Tab } from "../route";
import { words } from "../words";
import { FindBar, FindTools } from "./FindBar";
import { useFinding } from "./finding";
import { Edit } from "./Edit";
import { Fork } from "./Fork";
import { look, Talk, useTalk } from "./Talk";

const Changes = lazy(() => import("../changes/Changes"));
const Files = lazy(() => import("../machine/Files"));
const Machine = lazy(() => import("../machine/Machine"));
const w = words.agent;
const soon = 3 * 86_400_000; // how long before an agent's deletion a warning is shown, in milliseconds

/** The page of one agent. */
export default function AgentPage({ id, tab }: { id: string; tab: Tab }) {
  const client = useClient();
  const loaded = useLoad(() => client.agent(id), [id], look);
  const { data: agent, failure, loading, reload } = loaded;
  const talking = useTalk(id, loaded);
  const { follower } = talking;
  const t = follower.transcript;
  const now = useNow();
  const [forking, fork] = useState(false);
  const [editing, edit] = useState(false);
  const talks = tab === "conversation";
  const finding = useFinding(follower, talks);
  useTabKeys(id);
  useTab(agent);
  const pulls = usePulls(id, agent);

  if (failure && !agent) return <Failed failure={failure} retry={reload} top />;
  if (loading || !agent) return <Loading />;
  const act = (what: Promise<unknown>) => {
    what.then(reload, (e: unknown) => toast(asFailure(e).message, true));
  };
  const archived = agent.status === "ARCHIVED";
  const repo = agent.repos?.[0];
  const total = t.tokens.input + t.tokens.output + t.tokens.cacheRead + t.tokens.cacheWrite;
  const limited = usedOf(agent.limits, agent.used);
  const ms = t.started ? (t.ended ? Date.parse(t.ended) : now) - Date.parse(t.started) : 0;
  return (
    <div className="agent">
      <header className="top">
        <a className="button quiet square small" {...link({ page: "agents" })} aria-label={w.back}>
          <Icon name="left" />
        </a>
        <div className="agent-title">
          <h1 className="cut" dir="auto" title={shownLine(agent.name ?? "")}>
            {shownLine(agent.name ?? words.agents.untitled)}
          </h1>
          <div className="agent-facts">
            {repo && <span className="cut">{repoName(repo.url)}</span>}
            {t.branch && (
              <span className="row mono cut">
                <Icon name="branch" />
                <span className="cut">{shownLine(t.branch)}</span>
              </span>
            )}
            {t.model && <span className="cut model">{t.model}</span>}
            {total > 0 && <span title={w.tokensTitle(t.tokens.input, t.tokens.output, t.tokens.cacheRead, t.tokens.cacheWrite)}>{w.tokens(few(total))}</span>}
            {total > 0 && <span>{cost(t.tokens)}</span>}
            {t.turns > 0 && <span>{w.turns(t.turns)}</span>}
            {ms > 0 && <span>{span(ms)}</span>}
            {limited && <span className="badge" data-tone={agent.runStatus === "EXPIRED" ? "red" : undefined} title={w.usedTitle}>{limited}</span>}
            {agent.deletedAt && Date.parse(agent.deletedAt) - now < soon && <span className="badge" data-tone="amber">{w.deleted(new Date(agent.deletedAt).toLocaleDateString())}</span>}
            {agent.forkedFrom && <a {...link({ page: "agent", id: agent.forkedFrom, tab: "conversation" })}>{w.forked}</a>}
          </div>
        </div>
        <StatusBadge agent={agent} />
        <div className="row agent-acts">
          {isOpen(agent) && <Act icon="stop" name={w.stop} act={() => act(client.cancel(id, agent.latestRunId ?? ""))} />}
          {agent.paused ? (
            <Act icon="play" name={w.resume} act={() => act(client.resume(id))} />
          ) : (
            isOpen(agent) && <Act icon="pause" name={w.pause} act={() => act(client.pause(id))} />
          )}
          <Act icon="fork" name={w.fork} act={() => fork(true)} />
          {archived ? <Act icon="archive" name={w.unarchive} act={() => act(client.unarchive(id))} /> : !isOpen(agent) && <Act icon="archive" name={w.archive} act={() => act(client.archive(id))} />}
          <button type="button" className="button quiet square small" aria-label={w.edit} title={w.edit} onClick={() => edit(true)}>
            <Icon name="edit" />
          </button>
        </div>
      </header>
      {tab !== "changes" && <PullStrip agent={agent} pulls={rowsOf(agent, [], pulls.data?.items).flatMap((r) => r.pull ?? [])} />}
      <div className="tabs-row" data-finding={talks && finding.open ? "" : undefined}>
        <nav className="tabs" aria-label={w.tabsLabel}>
          {tabs.map((name) => (
            <a key={name} {...link({ page: "agent", id, tab: name })} aria-current={tab === name ? "page" : undefined}>
              {w.tabs[name]}
            </a>
          ))}
        </nav>
        {talks && <FindTools finding={finding} follower={follower} />}
      </div>
      {talks && finding.open && <FindBar finding={finding} more={follower.more} />}
      {talks && <Talk agent={agent} talking={talking} finding={finding} />}
      <Suspense fallback={<Loading />}>
        {tab === "changes" && <Changes agent={agent} revision={t.turns} entries={t.entries} branch={t.branch} more={follower.more} older={follower.older} pulls={pulls} />}
        {tab === "files" && <Files agent={agent} revision={t.turns} />}
        {tab === "machine" && <Machine agent={agent} />}
      </Suspense>
      {editing && <Edit agent={agent} reload={reload} close={() => edit(false)} />}
      {forking && <Fork id={id} close={() => fork(false)} />}
    </div>
  );
}

/** The keys 1 to 4 open the views of an agent, and g a goes back to the list. */
function useTabKeys(id: string): void {
  const open = (n: number) => go({ page: "agent", id, tab: tabs[n] ?? "conversation" });
  useKey("1", () => open(0));
  useKey("2", () => open(1));
  useKey("3", () => open(2));
  useKey("4", () => open(3));
  useKey("g a", () => go({ page: "agents" }));
}

function Act({ icon, name, act }: { icon: IconName; name: string; act: () => void }) {
  return (
    <button type="button" className="button small" onClick={act}>
      <Icon name={icon} />
      <span className="act-name">{name}</span>
    </button>
  );
}
