import { useState } from "react";
import { useClient, useLoad } from "../api/use";
import { Icon } from "../parts/Icon";
import { Failed, Loading } from "../parts/State";
import { toast, toastFailure } from "../parts/toast";
import { go, link, parts, type Part } from "../route";
import { useMay } from "../api/session";
import { Secrets } from "../settings/Secrets";
import { words } from "../words";
import { Builds } from "./Builds";
import { Details } from "./Details";
import { File } from "./File";
import { History } from "./History";
import { Snapshots } from "./Snapshots";
import { shownLine } from "../parts/clip";

const w = words.environments;

/** One environment: its file, versions, builds and snapshots. */
export default function Environment({ id, part }: { id: string; part: Part }) {
  const client = useClient();
  const { data, failure, loading, reload } = useLoad(() => client.environment(id), [id], 15_000);
  const member = useMay("member");
  const admin = useMay("admin");
  const [editing, edit] = useState(false);
  if (failure && !data) return <Failed failure={failure} retry={reload} top />;
  if (loading || !data) return <Loading />;
  const may = data.owner === "team" ? admin : member;
  const remove = () => {
    if (!confirm(w.removeSure(data.name))) return;
    client.deleteEnvironment(id).then(
      () => {
        toast(w.removed(data.name));
        go({ page: "environments" });
      },
      toastFailure,
    );
  };
  return (
    <>
      <header className="top">
        <a className="button quiet square small" {...link({ page: "environments" })} aria-label={w.back}>
          <Icon name="left" />
        </a>
        <h1 className="cut grow" dir="auto">
          {shownLine(data.name)}
        </h1>
        <span className="badge">{w.owner[data.owner]}</span>
        {may && (
          <span className="row env-acts">
            <button type="button" className="button small" onClick={() => edit(true)}>
              {w.edit}
            </button>
            <button type="button" className="button small danger" onClick={remove}>
              {w.remove}
            </button>
          </span>
        )}
      </header>
      <nav className="tabs" aria-label={w.partsLabel}>
        {parts.map((p) => (
          <a key={p} {...link({ page: "environments", id, part: p })} aria-current={p === part ? "page" : undefined}>
            {w.parts[p]}
          </a>
        ))}
      </nav>
      {part === "file" ? (
        <File of={data} may={may} reload={reload} />
      ) : (
        <div className="scroll">
          <div className="wide">
            {part === "builds" && <Builds of={data} may={may} />}
            {part === "snapshots" && <Snapshots of={data} />}
            {part === "secrets" && <Secrets environment={id} may={may} />}
            {part === "history" && <History of={data} may={may} reload={reload} />}
          </div>
        </div>
      )}
      {editing && <Details of={data} close={() => edit(false)} done={reload} />}
    </>
  );
}
