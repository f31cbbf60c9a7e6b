import { useState, type ReactNode } from "react";
import { useClient, useLoad } from "../api/use";
import { Icon } from "../parts/Icon";
import { Loading } from "../parts/State";
import { GitForm, ModelForm } from "../settings/Connections";
import { words } from "../words";
import { openSpawn } from "./spawn";

const w = words.connections.steps;

/** The steps for an admin before the first agent: connect a model and a git server. */
export default function FirstSteps() {
  const client = useClient();
  const { data, reload } = useLoad(client.server, []);
  const [skipped, skip] = useState(false);
  if (!data) return <Loading rows={3} />;
  const model = data.models[0];
  const git = data.gitServers[0];
  return (
    <div className="scroll">
      <div className="wide">
        <Step n={1} title={w.model} done={model && w.modelDone(model.id)} open={!model}>
          <p className="small muted">{w.modelLead}</p>
          <ModelForm local={data.localModel} done={reload} />
        </Step>
        <Step n={2} title={w.git} done={git ? w.gitDone(git.host) : skipped ? w.gitSkipped : undefined} open={Boolean(model) && !git && !skipped}>
          <p className="small muted">{w.gitLead}</p>
          <GitForm done={reload} cancel={() => skip(true)} cancelText={w.skip} />
        </Step>
        <Step n={3} title={w.agent} done={undefined} open={Boolean(model) && (Boolean(git) || skipped)}>
          <p className="small muted">{w.agentLead}</p>
          <button type="button" className="button first" onClick={openSpawn}>{words.agents.spawn}</button>
        </Step>
        {!model && (
          <p className="small muted">
            {w.without}{" "}
            <button type="button" className="link" onClick={openSpawn}>
              {w.scripted}
            </button>
            .
          </p>
        )}
      </div>
    </div>
  );
}

type StepProps = { n: number; title: string; done: string | undefined; open: boolean; children: ReactNode };

function Step({ n, title, done, open, children }: StepProps) {
  return (
    <section className="card padded stack first-step" data-done={done ? "" : undefined}>
      <h2>
        {done ? <Icon name="check" /> : <span className="muted">{n}.</span>} {title}
      </h2>
      {done && <p className="small muted">{done}</p>}
      {open && !done && children}
    </section>
  );
}
