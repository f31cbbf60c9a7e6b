import type { Client } from "../api/client";
import type { AgentSummary } from "../api/types";
import { asFailure } from "../api/use";
import { toast } from "../parts/toast";
import { words } from "../words";
import { isOpen } from "../parts/status";
import { refreshAgents } from "../store/agents";

const atOnce = 4; // maximum number of concurrent requests: with more, the server would reject some for a long list

/** Applies an action to each agent, and reports how many failed and why. */
async function each(some: readonly AgentSummary[], what: (a: AgentSummary) => Promise<unknown>): Promise<AgentSummary[]> {
  const left = [...some];
  const done: AgentSummary[] = [];
  let failed = 0;
  let why = "";
  const lane = async () => {
    for (let a = left.shift(); a; a = left.shift()) {
      try {
        await what(a);
        done.push(a);
      } catch (e) {
        failed++;
        why = asFailure(e).message;
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  if (failed > 0) toast(some.length === 1 ? why : words.agents.notAll(failed, some.length, why), true);
  refreshAgents();
  return done;
}

/** Stops the runs of the running agents. */
export async function stopAll(client: Client, some: readonly AgentSummary[]): Promise<void> {
  const done = await each(some.filter(isOpen), (a) => client.cancel(a.id, a.latestRunId ?? ""));
  if (done.length > 0) toast(words.agents.stopped(done.length));
}

/** Archives the agents, with a button to undo it. If all of them are archived already, it restores them. */
export async function archiveAll(client: Client, some: readonly AgentSummary[]): Promise<void> {
  const back = some.every((a) => a.status === "ARCHIVED");
  const done = await each(back ? some : some.filter((a) => a.status !== "ARCHIVED"), (a) => (back ? client.unarchive(a.id) : client.archive(a.id)));
  if (done.length === 0) return;
  if (back) toast(words.agents.unarchived(done.length));
  else toast(words.agents.archived(done.length), false, { name: words.agents.undo, act: () => void each(done, (a) => client.unarchive(a.id)) });
}
