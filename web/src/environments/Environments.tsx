import { useState } from "react";
import { useClient, useLoad } from "../api/use";
import { Icon } from "../parts/Icon";
import { Empty, Failed, Loading } from "../parts/State";
import { since, useNow } from "../parts/time";
import { link } from "../route";
import { repoName } from "../parts/status";
import { useMay } from "../api/session";
import { words } from "../words";
import { Details } from "./Details";
import { shownLine } from "../parts/clip";

const w = words.environments;

/** The list of the saved environments. */
export default function Environments() {
  const client = useClient();
  const now = useNow();
  const may = useMay("member");
  const [adding, add] = useState(false);
  const { data, failure, loading, reload } = useLoad(client.environments, [], 15_000);
  return (
    <>
      <header className="top">
        <h1 className="grow">{words.nav.environments}</h1>
        {may && (
          <>
            <a className="button small" {...link({ page: "setup" })}>
              <Icon name="machine" />
              {words.setUp.title}
            </a>
            <button type="button" className="button small" aria-label={w.add} onClick={() => add(true)}>
              <Icon name="plus" />
              <span className="wide-hint">{w.add}</span>
            </button>
          </>
        )}
      </header>
      <div className="scroll">
        {loading ? (
          <Loading />
        ) : failure && !data ? (
          <Failed failure={failure} retry={reload} />
        ) : data?.items.length === 0 ? (
          <Empty icon="environments" title={w.none}>
            <p>{w.noneLead}</p>
          </Empty>
        ) : (
          <ul className="wide list">
            {data?.items.map((e) => (
              <li key={e.id} className="card line">
                <Icon name="environments" />
                <a className="grow" {...link({ page: "environments", id: e.id })}>
                  <strong className="cut" dir="auto">
                    {shownLine(e.name)}
                  </strong>
                  <span className="muted small cut">{e.repos.map((r) => repoName(r.url)).join(", ") || w.noRepos}</span>
                </a>
                <span className="badge">{w.owner[e.owner]}</span>
                <span className="faint small">{w.changed(since(e.updatedAt, now))}</span>
              </li>
            ))}
          </ul>
        )}
      </div>
      {adding && <Details close={() => add(false)} />}
    </>
  );
}
