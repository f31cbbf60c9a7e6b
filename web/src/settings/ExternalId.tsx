import { useClient, useLoad } from "../api/use";
import { Copy } from "../parts/Copy";
import { words } from "../words";

const w = words.settings.aws;

/** The external ID for the trust policy of an AWS role; nothing if the server stores no secrets. */
export function ExternalId() {
  const { data } = useLoad(useClient().externalId, []);
  if (!data) return null;
  return (
    <section className="card padded stack">
      <h2>{w.title}</h2>
      <p className="small muted">{w.lead}</p>
      <div className="way">
        <code className="cut">{data.externalId}</code>
        <Copy text={data.externalId} label={w.copy} />
      </div>
    </section>
  );
}
