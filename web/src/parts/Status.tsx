import type { AgentSummary } from "../api/types";
import { statusOf, toneOf } from "./status";
import { words } from "../words";

/** An agent's status as a badge. */
export function StatusBadge({ agent }: { agent: AgentSummary }) {
  const status = statusOf(agent);
  return (
    <span className="badge" data-tone={toneOf[status]}>
      <span className="dot" data-tone={toneOf[status]} data-live={status === "working" || status === "starting" ? "" : undefined} />
      {words.status[status]}
    </span>
  );
}
