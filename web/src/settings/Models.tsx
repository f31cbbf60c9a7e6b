import { useClient, useLoad } from "../api/use";
import { Failed, Loading } from "../parts/State";
import { words } from "../words";

const w = words.settings.models;

/** The models in the server's configuration. */
export function Models() {
  const { data, failure, loading, reload } = useLoad(useClient().models, []);
  return (
    <section className="card padded stack">
      <h2>{w.title}</h2>
      <p className="small muted">{w.lead}</p>
      {loading && <Loading rows={2} />}
      {failure && !data && <Failed failure={failure} retry={reload} />}
      <ul className="list">
        {data?.items.map((m) => (
          <li key={m.id} className="line">
            <span className="grow cut">{m.displayName}</span>
            <code className="small muted cut">{m.id}</code>
            {m.aliases?.includes("default") && <span className="badge">{w.standard}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
