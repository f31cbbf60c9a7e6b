import { useEffect } from "react";
import { asFailure, useClient, useLoad } from "../api/use";
import { shownLine } from "../parts/clip";
import { cameBack, goTo } from "../parts/provider";
import { toast } from "../parts/toast";
import { words } from "../words";

const w = words.mcp;
const tones = { unknown: "grey", starting: "blue", ready: "green", failed: "red", needs_auth: "amber", left_out: "grey" } as const;

/** The MCP servers of an agent, and why it cannot use some. */
export function McpServers({ id }: { id: string }) {
  const client = useClient();
  const { data } = useLoad(() => client.agentMcpServers(id), [id], 15_000);
  useEffect(cameBack, []);
  if (!data?.items.length) return null;
  const signIn = (name: string) =>
    client
      .beginAgentMcpSignIn(id, name)
      .then((r) => goTo(r.authorizationUrl))
      .catch((e: unknown) => toast(asFailure(e).message, true));
  return (
    <section className="stack">
      <h2>{w.title}</h2>
      <p className="small muted">{w.agentLead}</p>
      {data.items.map((s) => (
        <div key={`${s.name} ${s.source} ${s.state}`} className="stack mcp-server">
          <div className="line">
            <span className="grow mcp-name">
              <strong className="cut">{shownLine(s.name)}</strong>
              <span className="cut small muted">{w.source[s.source]}</span>
            </span>
            {s.tools && s.tools.length > 0 && <span className="small muted">{w.tools(s.tools.length)}</span>}
            <span className="badge" data-tone={tones[s.state]}>
              {w.state[s.state]}
            </span>
          </div>
          {s.why && s.state !== "needs_auth" && <p className="small muted">{shownLine(s.why, 2_000)}</p>}
          {(s.state === "needs_auth" || s.signInOver) && (
            <div className="row">
              <button type="button" className="button small first" aria-label={s.signInOver ? w.signInAgainTo(s.name) : w.signInTo(s.name)} onClick={() => void signIn(s.name)}>
                {s.signInOver ? w.signInAgain : w.signIn}
              </button>
              {s.signInOver && <span className="small muted">{w.signInOver}</span>}
            </div>
          )}
        </div>
      ))}
    </section>
  );
}
