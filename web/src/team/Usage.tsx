import { useState } from "react";
import { useClient, useLoad } from "../api/use";
import { Empty, Failed, Loading } from "../parts/State";
import { words } from "../words";
import { days, sum, tokens, type Group } from "./usage";

const w = words.team;
const groups = Object.keys(w.by) as Group[];
const short = (n: number) => n.toLocaleString(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** Tokens of the last thirty days: a column a day, and a table. */
export function Usage() {
  const client = useClient();
  const [by, setBy] = useState<Group>("user");
  const to = new Date().toISOString().slice(0, 10);
  const from = new Date(Date.now() - 29 * 86_400_000).toISOString().slice(0, 10);
  const report = useLoad(() => client.teamUsage(from, to), [from, to]);
  const rows = report.data?.items ?? [];
  const daily = new Map(sum(rows, "day").map((s) => [s.name, tokens(s)]));
  const all = days(from, to);
  const most = Math.max(1, ...daily.values());
  const total = [...daily.values()].reduce((a, b) => a + b, 0);
  return (
    <section className="card part">
      <h2>{w.usage}</h2>
      {report.loading && !report.data && <Loading rows={4} />}
      {report.failure && !report.data && <Failed failure={report.failure} retry={report.reload} />}
      {report.data && rows.length === 0 && <Empty icon="list" title={w.noUsage} />}
      {rows.length > 0 && (
        <>
          <svg className="chart" viewBox={`0 0 ${all.length * 10} 60`} preserveAspectRatio="none" role="img" aria-label={w.chart(short(total))}>
            {all.map((day, i) => {
              const height = ((daily.get(day) ?? 0) / most) * 56;
              return (
                <rect key={day} x={i * 10 + 1} y={60 - height} width="8" height={height}>
                  <title>{w.dayTokens(day, short(daily.get(day) ?? 0))}</title>
                </rect>
              );
            })}
          </svg>
          <div className="line" role="group" aria-label={w.byLabel}>
            {groups.map((g) => (
              <button key={g} type="button" className="button small" aria-pressed={g === by} onClick={() => setBy(g)}>
                {w.by[g]}
              </button>
            ))}
          </div>
          <div className="table" tabIndex={0} role="region" aria-label={w.usage}>
            <table>
              <thead>
                <tr>
                  <th scope="col">{w.by[by]}</th>
                  <th scope="col">{w.columns.runs}</th>
                  <th scope="col">{w.columns.input}</th>
                  <th scope="col">{w.columns.cached}</th>
                  <th scope="col">{w.columns.output}</th>
                </tr>
              </thead>
              <tbody>
                {sum(rows, by).map((s) => (
                  <tr key={s.name}>
                    <th scope="row">{s.name || "–"}</th>
                    <td>{s.runs.toLocaleString()}</td>
                    <td>{short(s.input)}</td>
                    <td>{short(s.cached)}</td>
                    <td>{short(s.output)}</td>
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
