import { useClient, useLoad } from "../api/use";
import { Failed, Loading } from "../parts/State";
import { words } from "../words";
import { shownLine } from "../parts/clip";

const w = words.team.disk;
const units = ["B", "KiB", "MiB", "GiB", "TiB"];

/** sizeOf shows a number of bytes with a unit, such as 1.5 GiB. */
export function sizeOf(bytes: number): string {
  const i = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${(bytes / 1024 ** i).toFixed(i > 0 ? 1 : 0)} ${units[i]}`;
}

/** How much of the server's disk each person and the server use, with a bar for each, and what is open at the server now. */
export function DiskUsage() {
  const client = useClient();
  const usage = useLoad(client.diskUsage, []);
  const people = usage.data?.people ?? [];
  const held = usage.data?.held ?? [];
  const quota = usage.data?.quotaBytes ?? 0;
  const most = Math.max(1, quota, ...people.map((p) => p.bytes));
  return (
    <section className="card part">
      <h2>{w.title}</h2>
      {usage.loading && !usage.data && <Loading rows={3} />}
      {usage.failure && !usage.data && <Failed failure={usage.failure} retry={usage.reload} />}
      {usage.data && (
        <div className="table" tabIndex={0} role="region" aria-label={w.title}>
          <table>
            <thead>
              <tr>
                <th scope="col">{w.person}</th>
                <th scope="col">{w.size}</th>
                <th scope="col">{w.inodes}</th>
                <th scope="col">{quota > 0 ? w.ofQuota(sizeOf(quota)) : w.share}</th>
              </tr>
            </thead>
            <tbody>
              {people.map((p) => (
                <tr key={p.userId}>
                  <th scope="row">{p.userId === 0 ? w.server : shownLine(p.user ?? "") || words.team.nobody}</th>
                  <td>{sizeOf(p.bytes)}</td>
                  <td>{p.inodes.toLocaleString()}</td>
                  <td>
                    <svg className="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                      <rect data-series={quota > 0 && p.userId !== 0 && p.bytes > quota ? 4 : 0} width={(p.bytes / most) * 100} height="10" />
                    </svg>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {held.length > 0 && (
        <>
          <h3>{w.held}</h3>
          <div className="table" tabIndex={0} role="region" aria-label={w.held}>
            <table>
              <thead>
                <tr>
                  <th scope="col">{w.kind}</th>
                  <th scope="col">{w.count}</th>
                  <th scope="col">{w.memory}</th>
                  <th scope="col">{w.person}</th>
                  <th scope="col">{w.agent}</th>
                </tr>
              </thead>
              <tbody>
                {held.map((h) => (
                  <tr key={`${h.kind} ${h.userId} ${h.agentId ?? ""}`}>
                    <th scope="row">{w.kinds[h.kind] ?? shownLine(h.kind)}</th>
                    <td>{h.count.toLocaleString()}</td>
                    <td>{sizeOf(h.bytes)}</td>
                    <td>{h.userId === 0 ? w.unknown : shownLine(h.user ?? "") || words.team.nobody}</td>
                    <td>{shownLine(h.agentId ?? "")}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </section>
  );
}
