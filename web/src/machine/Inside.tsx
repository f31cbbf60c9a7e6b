import { useState, type ReactNode } from "react";
import type { Agent } from "../api/types";
import { Empty } from "../parts/State";
import { words } from "../words";

const w = words.machine;

/**
 * Shows its children once the agent's machine is running; before that, the
 * machine's startup progress.
 */
export function Inside({ agent, children }: { agent: Agent; children: () => ReactNode }) {
  const [wake, setWake] = useState(false);
  const asleep = agent.machine === "hibernated";
  if (agent.machine === "ready" || (asleep && wake)) return children();
  if (asleep) {
    return (
      <Empty icon="machine" title={w.asleep}>
        <p>{w.asleepLead}</p>
        <button type="button" className="button first" onClick={() => setWake(true)}>
          {w.wake}
        </button>
      </Empty>
    );
  }
  const booting = agent.machine === "booting";
  return (
    <Empty icon="machine" title={booting ? w.booting : w.none}>
      <p>{booting ? w.bootingLead : w.noneLead}</p>
    </Empty>
  );
}
