import { useMemo, useRef, useState } from "react";
import type { EnvironmentDetail, EnvironmentVersion } from "../api/types";
import { useClient, useLoad } from "../api/use";
import { FileChanges } from "../changes/File";
import { parseDiff } from "../changes/parse";
import { SplitPick, useSplit } from "../changes/view";
import { Code } from "../parts/Code";
import { Failed, Loading } from "../parts/State";
import { since, useNow } from "../parts/time";
import { toast, toastFailure } from "../parts/toast";
import { words } from "../words";

const w = words.environments;

/** The earlier versions of an environment, their differences, and a button that restores one. */
export function History({ of, may, reload }: { of: EnvironmentDetail; may: boolean; reload: () => void }) {
  const client = useClient();
  const list = useLoad(() => client.environmentHistory(of.id), [of.id, of.versionId]);
  const members = useLoad(client.members, []);
  const [shown, show] = useState("");
  const [pair, compare] = useState<{ from: string; to: string }>();
  const now = useNow();
  const nameOf = (id: number) => {
    const u = members.data?.items.find((m) => m.id === id);
    return u ? [u.firstName, u.lastName].filter(Boolean).join(" ") || (u.email ?? words.team.nobody) : words.team.nobody;
  };
  const restore = (v: EnvironmentVersion) =>
    client.updateEnvironment(of.id, { environmentJson: v.environmentJson, versionId: of.versionId }).then(
      () => {
        toast(w.restored);
        reload();
        list.reload();
      },
      (e: unknown) => {
        toastFailure(e);
        reload();
      },
    );
  const items = list.data?.items ?? [];
  const before = (id: string) => items[items.findIndex((v) => v.versionId === id) + 1]?.versionId ?? "";
  const to = pair?.to ?? items[0]?.versionId ?? "";
  return (
    <>
      {list.loading && <Loading rows={4} />}
      {list.failure && !list.data && <Failed failure={list.failure} retry={list.reload} />}
      {items.length > 1 && (
        <Compare id={of.id} from={pair?.from ?? before(to)} to={to} set={compare} options={items.map((v) => ({ id: v.versionId, name: w.versionOf(new Date(v.createdAt).toLocaleString(), members.data ? nameOf(v.userId) : "") }))} />
      )}
      <ul className="list">
        {items.map((v) => (
          <li key={v.versionId} className="card">
            <div className="line">
              <time dateTime={v.createdAt} title={new Date(v.createdAt).toLocaleString()}>
                {since(v.createdAt, now)}
              </time>
              <span className="grow cut small muted">{members.data && w.by(nameOf(v.userId))}</span>
              {v.versionId === of.versionId ? (
                <span className="badge" data-tone="blue">
                  {w.current}
                </span>
              ) : (
                may && (
                  <button type="button" className="button small" disabled={v.environmentJson === of.environmentJson} onClick={() => void restore(v)}>
                    {w.restore}
                  </button>
                )
              )}
              {items.length > 1 && (
                <button type="button" className="button quiet small" aria-pressed={v.versionId === to} onClick={() => compare({ from: before(v.versionId), to: v.versionId })}>
                  {w.changes}
                </button>
              )}
              <button type="button" className="button quiet small" aria-expanded={shown === v.versionId} onClick={() => show(shown === v.versionId ? "" : v.versionId)}>
                {w.show}
              </button>
            </div>
            {shown === v.versionId && (
              <pre className="block log" tabIndex={0}>
                <Code code={v.environmentJson} language="json" />
              </pre>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

type Comparing = { id: string; from: string; to: string; set: (pair: { from: string; to: string }) => void; options: { id: string; name: string }[] };

/** The differences between two versions. */
function Compare({ id, from, to, set, options }: Comparing) {
  const client = useClient();
  const [split, setSplit] = useSplit();
  const { data: now, failure, reload } = useLoad(() => client.environmentDiff(id, from, to), [id, from, to]);
  const last = useRef(now);
  if (now) last.current = now;
  const data = failure ? undefined : last.current; // keep the previous differences until the next have loaded, so that the layout does not shift
  const [file] = useMemo(() => parseDiff(data?.diff ?? ""), [data]);
  const pick = (label: string, value: string, choose: (id: string) => void, none: boolean) => (
    <label className="field">
      <span className="label">{label}</span>
      <select className="input" value={value} onChange={(e) => choose(e.target.value)}>
        {none && <option value="">{w.nothingBefore}</option>}
        {options.map((o) => (
          <option key={o.id} value={o.id}>
            {o.name}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <section className="stack compare" aria-label={w.compare}>
      <div className="row wraps">
        {pick(w.from, from, (v) => set({ from: v, to }), from === "")}
        {pick(w.to, to, (v) => set({ from, to: v }), false)}
        <span className="grow" />
        <SplitPick split={split} set={setSplit} />
      </div>
      {failure && <Failed failure={failure} retry={reload} />}
      {!failure && !data && <Loading rows={3} />}
      {data && (file ? <FileChanges file={file} split={split} /> : <p className="muted small">{w.same}</p>)}
    </section>
  );
}
