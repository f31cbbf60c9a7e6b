import { useCallback, useMemo, useState } from "react";
import { isOpen } from "../parts/status";
import { enqueue } from "../store/queue";
import type { Entry } from "../journal/entry";
import type { Agent } from "../api/types";
import { useClient, useLoad } from "../api/use";
import { useDraft } from "../parts/draft";
import { Icon } from "../parts/Icon";
import { Path } from "../parts/Path";
import { Empty, Failed, Loading, Problem } from "../parts/State";
import { toast } from "../parts/toast";
import { words } from "../words";
import { placeOfComment, promptOf, type Comment } from "./comments";
import { ByTurn } from "./ByTurn";
import { Counts, FileChanges } from "./File";
import { byPath, parseDiff, totalOf } from "./parse";
import { Pulls } from "./Pulls";
import type { PullsSeen } from "./seen";
import { SplitPick, useSplit } from "./view";
import { useViewed } from "./viewed";

const w = words.changes;

/** The agent's changes on its branch, reloaded after each turn. */
export default function Changes({ agent, revision, entries, branch, more, older, pulls }: { agent: Agent; revision: number; entries: readonly Entry[]; branch: string; more: boolean; older: () => void; pulls: PullsSeen }) {
  const [byTurn, setByTurn] = useState(false);
  const client = useClient();
  const { data, failure, loading, reload } = useLoad(() => client.diff(agent.id), [agent.id, agent.latestRunId, revision]);
  const files = useMemo(() => parseDiff(data?.diff ?? "").sort(byPath), [data]);
  const { viewed, collapsed, view: setViewed, fold, foldAll } = useViewed(agent.id, files);
  const acts = useMemo(() => ({ view: setViewed, fold }), [setViewed, fold]);
  const [split, view] = useSplit();
  const [comments, setComments, clear] = useDraft<Comment[]>(`comments.${agent.id}`, []);
  const put = useCallback((c: Comment) => setComments((old) => [...old.filter((o) => placeOfComment(o) !== placeOfComment(c)), c]), [setComments]);
  const drop = useCallback((place: string) => setComments((old) => old.filter((o) => placeOfComment(o) !== place)), [setComments]);
  const said = useMemo(() => ({ comments, put, drop }), [comments, put, drop]);
  // A stable value for files without comments, so that they are not rendered
  // again.
  const none = useMemo(() => ({ comments: [], put, drop }), [put, drop]);
  const of = useMemo(() => new Map([...new Set(comments.map((c) => c.path))].map((path) => [path, { comments: comments.filter((c) => c.path === path && !c.turn), put, drop }])), [comments, put, drop]);

  if (loading && !data) return <Loading />;
  if (failure && !data) return <Failed failure={failure} retry={reload} />;
  if (files.length === 0 && !byTurn) {
    return (
      <div className="changes">
        <Pulls agent={agent} branch={branch} seen={pulls} />
        <Empty icon="file" title={w.none}>
          <p>{w.noneLead}</p>
          <button type="button" className="button" onClick={reload}>
            {w.reload}
          </button>
        </Empty>
      </div>
    );
  }
  const download = () => {
    const url = URL.createObjectURL(new Blob([data?.diff ?? ""], { type: "text/x-diff" }));
    const a = document.createElement("a");
    a.href = url;
    a.download = `${agent.id}.patch`;
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  const send = () => {
    enqueue(agent.id, promptOf(comments, w.intro), []);
    clear();
    toast(isOpen(agent) ? w.queued : w.sent);
  };
  return (
    <div className="changes">
      <div className="agents-tools">
        <span className="muted small">{w.files(files.length)}</span>
        <Counts file={totalOf(files)} />
        {viewed.size > 0 && <span className="muted small">{w.viewedCount(viewed.size, files.length)}</span>}
        <span className="grow" />
        {comments.length > 0 && (
          <>
            <span className="small muted">{w.comments(comments.length)}</span>
            <button type="button" className="button first small" onClick={send}>
              <Icon name="send" /> {w.sendComments}
            </button>
          </>
        )}
        <div className="pick" role="group" aria-label={w.grouping}>
          <button type="button" aria-pressed={!byTurn} onClick={() => setByTurn(false)}>
            {w.byFile}
          </button>
          <button type="button" aria-pressed={byTurn} onClick={() => setByTurn(true)}>
            {w.byTurn}
          </button>
        </div>
        <SplitPick split={split} set={view} />
        {!byTurn && (
          <button type="button" className="button small" onClick={foldAll}>
            {collapsed.size < files.length ? w.collapseAll : w.expandAll}
          </button>
        )}
        <button type="button" className="button small" onClick={download}>
          <Icon name="download" /> {w.download}
        </button>
      </div>
      <Pulls agent={agent} branch={branch} seen={pulls} />
      {byTurn ? <ByTurn entries={entries} revision={revision} split={split} said={said} more={more} older={older} /> : <div className="changes-body">
        <nav className="file-list" aria-label={w.fileList}>
          <ul>
            {files.map((f) => (
              <li key={f.path} data-viewed={viewed.has(f.path) ? "" : undefined}>
                <button type="button" onClick={() => document.getElementById(`file-${f.path}`)?.scrollIntoView({ block: "start" })}>
                  <Path path={f.path} className="grow" />
                  <Counts file={f} />
                </button>
              </li>
            ))}
          </ul>
        </nav>
        <div className="scroll files">
          {data?.truncated && <Problem tone="amber">{w.truncated}</Problem>}
          {files.map((f) => (
            <FileChanges key={f.path} file={f} split={split} said={of.get(f.path) ?? none} collapsed={collapsed.has(f.path)} viewed={viewed.has(f.path)} acts={acts} />
          ))}
        </div>
      </div>}
    </div>
  );
}
