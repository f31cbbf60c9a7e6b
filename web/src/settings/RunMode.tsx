import { useState } from "react";
import { asFailure, useClient, useLoad } from "../api/use";
import { Failed, Loading, Problem } from "../parts/State";
import { toast } from "../parts/toast";
import { useMay } from "../api/session";
import { words } from "../words";

const w = words.settings;
const modes = Object.keys(words.spawn.runModes) as (keyof typeof words.spawn.runModes)[];

/** The run mode: which actions need approval. The strictest of this, the server's and the agent's own setting
 * applies. */
export function RunMode() {
  const admin = useMay("admin");
  const member = useMay("member");
  return (
    <section className="card padded stack">
      <h2>{words.spawn.runMode}</h2>
      <p className="small muted">{w.runModeLead}</p>
      <div className="form-grid">
        <One owner="me" may={member} />
        <One owner="team" may={admin} />
      </div>
    </section>
  );
}

function One({ owner, may }: { owner: "me" | "team"; may: boolean }) {
  const client = useClient();
  const { data, failure, loading, reload } = useLoad(() => client.rule(owner, "run-mode"), [owner]);
  const [problem, setProblem] = useState("");
  const set = (mode: string) => {
    setProblem("");
    client.putRule(owner, "run-mode", mode).then(
      () => {
        toast(w.saved);
        reload();
      },
      (e: unknown) => setProblem(asFailure(e).message),
    );
  };
  if (loading) return <Loading rows={1} />;
  if (failure && !data) return <Failed failure={failure} retry={reload} />;
  return (
    <div className="field">
      <label htmlFor={`mode-${owner}`}>{w.owner[owner]}</label>
      <select id={`mode-${owner}`} className="input" disabled={!may} value={data?.text.trim() ?? ""} onChange={(e) => set(e.target.value)}>
        {modes.map((m) => (
          <option key={m} value={m}>
            {m ? words.spawn.runModes[m] : w.notSet}
          </option>
        ))}
      </select>
      {problem && <Problem>{problem}</Problem>}
    </div>
  );
}
