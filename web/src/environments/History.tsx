import { useState } from "react";
import type { EnvironmentDetail, EnvironmentVersion } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { Code } from "../parts/Code";
import { Failed, Loading } from "../parts/State";
import { since, useNow } from "../parts/time";
import { toast } from "../parts/toast";
import { words } from "../words";

const w = words.environments;

/** What an environment said before, and a way back to it. */
export function History({ of, may, reload }: { of: EnvironmentDetail; may: boolean; reload: () => void }) {
  const client = useClient();
  const list = useLoad(() => client.environmentHistory(of.id), [of.id, of.versionId]);
  const members = useLoad(client.members, []);
  const [shown, show] = useState("");
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
        toast(asFailure(e).message, true);
        reload();
      },
    );
  return (
    <>
      {list.loading && <Loading rows={4} />}
      {list.failure && !list.data && <Failed failure={list.failure} retry={list.reload} />}
      <ul className="list">
        {list.data?.items.map((v) => (
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
