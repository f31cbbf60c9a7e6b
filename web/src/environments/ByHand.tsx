import { lazy, Suspense, useState } from "react";
import type { Agent } from "../api/types";
import { Empty, Loading } from "../parts/State";
import { link } from "../route";
import { words } from "../words";
import { Head, Proposal, SaveDisk, useProposal, Views } from "./Proposal";

const Terminal = lazy(() => import("../machine/Terminal"));
const w = words.setUp;

/** A machine that a person sets up in a terminal. */
export function ByHand({ agent }: { agent: Agent }) {
  const [draft, setDraft] = useProposal(agent.id);
  const [view, setView] = useState<"terminal" | "proposal">(draft.text ? "proposal" : "terminal");
  if (agent.runStatus !== "FINISHED") {
    const failed = agent.runStatus === "ERROR" || agent.runStatus === "CANCELLED" || agent.runStatus === "EXPIRED";
    return (
      <>
        <Head agent={agent} />
        <Empty icon={failed ? "warn" : "machine"} title={failed ? w.failed : w.starting}>
          <p>{agent.doing ?? words.machine.bootingLead}</p>
          <a className="button" {...link({ page: "agent", id: agent.id, tab: "conversation" })}>
            {w.steps}
          </a>
        </Empty>
      </>
    );
  }
  return (
    <>
      <Head agent={agent} />
      <div className="agents-tools">
        <Views of={["terminal", "proposal"]} view={view} setView={setView} proposed={draft.text !== ""} />
        <SaveDisk agent={agent} first={!draft.snapshot} saved={(d) => (setDraft(d), setView("proposal"))} />
        <span className="grow" />
        <span className="small faint">{view === "terminal" && words.machine.leave}</span>
      </div>
      {view === "terminal" ? (
        <>
          <p className="small muted env-problem">{w.typing}</p>
          <Suspense fallback={<Loading />}>
            <Terminal id={agent.id} name="main" />
          </Suspense>
        </>
      ) : (
        <Proposal agent={agent} draft={draft} setDraft={setDraft} />
      )}
    </>
  );
}
