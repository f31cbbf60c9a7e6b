import { useState } from "react";
import { useClient, useLoad } from "../api/use";
import { Empty, Failed, Loading } from "../parts/State";
import { costOf } from "../parts/money";
import { words } from "../words";
import { days, stack, sum, type Group, type Row } from "./usage";
import { shownLine } from "../parts/clip";

const w = words.team;
const groups = Object.keys(w.by) as Group[];
const short = (n: number) => n.toLocaleString(undefined, { notation: "compact", maximumFractionDigits: 1 });

const ranges = [7, 30, 90] as const;

/** Token usage as a chart with a stacked column for each day, and as a table. */
export function Usage() {
  const client = useClient();
  const [by, setBy] = useState<Group>("user");
  const [back, setBack] = useState<(typeof ranges)[number]>(30);
  const to = new Date().toISOString().slice(0, 10);
  const from = new Date(Date.now() - (back - 1) * 86_400_000).toISOString().slice(0, 10);
  const report = useLoad(() => client.teamUsage(from, to), [from, to]);
  const rows = report.data?.items ?? [];
  return (
    <section className="card part">
      <div className="row wraps">
        <h2 className="grow">{w.usage}</h2>
        <div className="pick" role="group" aria-label={w.range}>
          {ranges.map((n) => (
            <button key={n} type="button" aria-pressed={n === back} onClick={() => setBack(n)}>
              {w.ranges[n]}
            </button>
          ))}
        </div>
      </div>
      {report.loading && !report.data && <Loading rows={14} />}
      {report.failure && !report.data && <Failed failure={report.failure} retry={report.reload} />}
      {report.data && rows.length === 0 && <Empty icon="list" title={w.noUsage} />}
      {rows.length > 0 && (
        <>
          <Chart rows={rows} by={by} all={days(from, to)} />
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
                  <th scope="col">{w.columns.cost}</th>
                </tr>
              </thead>
              <tbody>
                {sum(rows, by).map((s) => (
                  <tr key={s.name}>
                    <th scope="row">{shownLine(s.name) || "–"}</th>
                    <td>{s.runs.toLocaleString()}</td>
                    <td>{short(s.input)}</td>
                    <td>{short(s.cached)}</td>
                    <td>{short(s.output)}</td>
                    <td>{costOf(s.usd, s.unpriced)}</td>
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

/** The stacked columns, with the largest series at the bottom. */
function Chart({ rows, by, all }: { rows: readonly Row[]; by: Group; all: readonly string[] }) {
  const series = stack(rows, by, all, w.others);
  const totals = all.map((_, i) => series.reduce((n, s) => n + (s.values[i] ?? 0), 0));
  const most = Math.max(1, ...totals);
  const total = totals.reduce((a, b) => a + b, 0);
  return (
    <figure className="usage-chart">
      <span className="small faint">{short(most)}</span>
      <svg className="chart" viewBox={`0 0 ${all.length * 10} 100`} preserveAspectRatio="none" role="img" aria-label={w.chart(short(total))}>
        {all.map((day, i) => {
          let top = 100;
          return (
            <g key={day}>
              <title>{w.dayTokens(day, short(totals[i] ?? 0))}</title>
              {series.map((s, n) => {
                const height = ((s.values[i] ?? 0) / most) * 100;
                top -= height;
                return height > 0 && <rect key={s.name} data-series={n} x={i * 10 + 1} y={top} width="8" height={height} />;
              })}
            </g>
          );
        })}
      </svg>
      <div className="row small faint">
        <span className="grow">{all[0]}</span>
        <span>{all.at(-1)}</span>
      </div>
      {by !== "day" && (
        <ul className="legend small">
          {series.map((s, n) => (
            <li key={s.name}>
              <i data-series={n} />
              <span className="ellipsis">{shownLine(s.name) || "–"}</span>
            </li>
          ))}
        </ul>
      )}
    </figure>
  );
}
