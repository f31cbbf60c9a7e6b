import type { EnvironmentDetail, Snapshot } from "../api/types";
import { useClient, useLoad } from "../api/use";
import { Icon } from "../parts/Icon";
import { sizeOf } from "../few";
import { Empty, Failed, Loading } from "../parts/State";
import { since, useNow } from "../parts/time";
import { toastFailure } from "../parts/toast";
import { link } from "../route";
import { session, useMay } from "../api/session";
import { words } from "../words";

const w = words.environments;
const day = (at: string) => new Date(at).toLocaleDateString();

/** The snapshots from which machines for an environment's repositories can start. */
export function Snapshots({ of }: { of: EnvironmentDetail }) {
  const client = useClient();
  const { data, failure, loading, reload } = useLoad(() => client.snapshots(of.id), [of.id], 15_000);
  const admin = useMay("admin");
  const member = useMay("member");
  const me = session.use()?.user?.id;
  const now = useNow();
  const drop = (s: Snapshot) => {
    if (confirm(w.snapshotSure(s.id))) client.deleteSnapshot(s.id).then(reload, toastFailure);
  };
  if (loading) return <Loading rows={4} />;
  if (!data) return failure ? <Failed failure={failure} retry={reload} /> : null;
  if (data.items.length === 0) {
    return (
      <Empty icon="machine" title={w.noSnapshots}>
        <p>{w.noSnapshotsLead}</p>
        {member && (
          <a className="button" {...link({ page: "setup" })}>
            {words.setUp.title}
          </a>
        )}
      </Empty>
    );
  }
  return (
    <ul className="list">
      {data.items.map((s) => (
        <li key={s.id} className="card line">
          <Icon name="machine" />
          <span className="grow stack tight">
            <code className="cut">{s.id}</code>
            <span className="small muted breaks">
              {[s.sizeBytes !== undefined && sizeOf(s.sizeBytes), w.snapshotSaved(since(s.createdAt, now)), s.repo, s.usedAt && w.snapshotUsed(since(s.usedAt, now)), s.expiresAt ? w.expires(day(s.expiresAt)) : w.noExpiry].filter(Boolean).join(" · ")}
            </span>
          </span>
          {of.environmentJson.includes(`"${s.id}"`) && <span className="badge" data-tone="blue">{w.snapshotNamed}</span>}
          {(admin || s.userId === me) && (
            <button type="button" className="button quiet square small" aria-label={w.snapshotDrop(s.id)} onClick={() => drop(s)}>
              <Icon name="close" />
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}
