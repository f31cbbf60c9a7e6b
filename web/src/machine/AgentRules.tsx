import { useState } from "react";
import type { AgentContext } from "../api/types";
import { useClient, useLoad } from "../api/use";
import { shownLine } from "../parts/clip";
import { few } from "../few";
import { words } from "../words";

const w = words.agentRules;
const first = 8; // number of rules shown before the user asks for more
const step = 100;
const tones = { yes: "green", offered: "blue", no: "grey" } as const;

/** The rules for an agent's work, which of them its model has, and which were left out. */
export function AgentRules({ id }: { id: string }) {
  const client = useClient();
  const { data } = useLoad(() => client.agentContext(id), [id]);
  const [most, setMost] = useState(first);
  if (!data || (data.rules.length === 0 && data.leftOut.length === 0)) return null;
  return (
    <section className="stack">
      <h2>{w.title}</h2>
      <p className="small muted">{w.lead(few(data.tokens))}</p>
      {data.rules.slice(0, most).map((r) => (
        <div key={`${r.from} ${r.source}`} className="stack mcp-server">
          <div className="line">
            <span className="grow mcp-name">
              <strong className="cut" title={shownLine(r.source)}>
                {shownLine(r.source)}
              </strong>
              <span className="cut small muted">{w.from[r.from]}</span>
            </span>
            <span className="small muted">{w.tokens(few(r.tokens))}</span>
            <span className="badge" data-tone={tones[r.given]}>
              {w.given[r.given]}
            </span>
          </div>
          <p className="small muted">{shownLine(whenOf(r), 500)}</p>
        </div>
      ))}
      {data.rules.length > most && (
        <button type="button" className="button small" onClick={() => setMost(most + step)}>
          {w.more(Math.min(step, data.rules.length - most))}
        </button>
      )}
      {data.leftOut.length > 0 && (
        <details>
          <summary className="small">{w.leftOut(data.leftOut.length)}</summary>
          {data.leftOut.map((l, i) => (
            <p key={i} className="small muted">
              {shownLine(l.source)}: {shownLine(l.why, 500)}
            </p>
          ))}
        </details>
      )}
    </section>
  );
}

/** When a rule applies, as text. */
function whenOf(r: AgentContext["rules"][number]): string {
  const when = { always: w.always, files: w.files((r.globs ?? []).join(", ")), request: w.request(r.description ?? ""), mention: w.mention }[r.when];
  return r.folder ? w.inFolder(when, r.folder) : when;
}
