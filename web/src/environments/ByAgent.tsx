import { lazy, Suspense, useEffect, useState } from "react";
import { FindBar } from "../agent/FindBar";
import { useFinding } from "../agent/finding";
import { Talk, useTalk } from "../agent/Talk";
import { isOpen } from "../parts/status";
import type { Agent } from "../api/types";
import { useClient, useLoad, type Loaded } from "../api/use";
import { Inside } from "../machine/Inside";
import { Empty, Failed, Loading, Problem } from "../parts/State";
import { StatusBadge } from "../parts/Status";
import { toastFailure } from "../parts/toast";
import { words } from "../words";
import { given, Head, Proposal, SaveDisk, useProposal, Views } from "./Proposal";

const Terminal = lazy(() => import("../machine/Terminal"));
const w = words.setUp;

/** A machine that an agent sets up: the conversation, and the agent's proposal. */
export function ByAgent({ agent, loaded }: { agent: Agent; loaded: Loaded<Agent> }) {
  const client = useClient();
  const id = agent.id;
  const talking = useTalk(id, loaded);
  const open = isOpen(agent);
  const [draft, setDraft] = useProposal(id);
  const [view, setView] = useState<"talk" | "terminal" | "proposal">("talk");
  const finding = useFinding(talking.follower, view === "talk");
  // There is no proposal while the agent works. Each of its runs may make a new proposal.
  const proposed = useLoad(() => (open ? Promise.resolve(null) : client.proposedEnvironment(id)), [id, agent.latestRunId, open]);
  const theirs = proposed.data?.environmentJson;
  const another = theirs !== undefined && theirs !== draft.theirs && theirs !== draft.text; // a draft that was committed also appears as the agent's proposal
  const touched = draft.text !== draft.given;
  const take = () => proposed.data && setDraft(given(proposed.data.environmentJson, { theirs: proposed.data.environmentJson, why: [w.proposes(proposed.data.path, proposed.data.branch), ...proposed.data.findings] }));
  useEffect(() => {
    if (another && !touched) take();
  });
  const stop = () => void client.cancel(id, agent.latestRunId ?? "").then(loaded.reload, toastFailure);
  return (
    <>
      <Head
        agent={agent}
        instead={
          open && (
            <button type="button" className="button small" onClick={stop}>
              {words.agent.stop}
            </button>
          )
        }
      >
        <StatusBadge agent={agent} />
      </Head>
      <div className="agents-tools">
        <Views of={["talk", "terminal", "proposal"]} view={view} setView={setView} proposed={!open || draft.text !== ""} />
        {!open && <SaveDisk agent={agent} saved={(d) => (setDraft({ ...d, theirs: theirs ?? "" }), setView("proposal"))} />}
        <span className="grow" />
        {view === "talk" && !open && draft.text !== "" && (
          <button type="button" className="button first" onClick={() => setView("proposal")}>
            {w.see}
          </button>
        )}
      </div>
      {view === "talk" && finding.open && <FindBar finding={finding} more={talking.follower.more} />}
      {view === "talk" && <Talk agent={agent} talking={talking} finding={finding} />}
      {view === "terminal" && (
        <Inside agent={agent}>
          {() => (
            <Suspense fallback={<Loading />}>
              <Terminal id={id} name="main" />
            </Suspense>
          )}
        </Inside>
      )}
      {view === "proposal" && (
        <>
          {another && touched && (
            <div className="env-problem">
              <Problem tone="amber">
                {w.another}{" "}
                <button type="button" className="button small" onClick={take}>
                  {words.environments.seeTheirs}
                </button>
              </Problem>
            </div>
          )}
          {draft.text ? (
            <Proposal agent={agent} draft={draft} setDraft={setDraft} />
          ) : proposed.loading ? (
            <Loading />
          ) : proposed.failure && proposed.failure.code !== "no_proposal" ? (
            <Failed failure={proposed.failure} retry={proposed.reload} />
          ) : (
            <Empty icon="environments" title={w.noProposal}>
              <p>{w.noProposalLead}</p>
              <button type="button" className="button" onClick={() => setView("talk")}>
                {w.views.talk}
              </button>
            </Empty>
          )}
        </>
      )}
    </>
  );
}
