import type { Agent, PullRequestStatus } from "../api/types";
import { useClient, useLoad, type Loaded } from "../api/use";
import { opened } from "./pulls";

const look = 30_000; // polling interval in milliseconds: the server asks the forge at most every ten seconds

/** The latest state of an agent's pull requests on the forge. */
export type PullsSeen = Loaded<{ items: PullRequestStatus[] }>;

/** usePulls polls the state of an agent's pull requests, if the agent has any. */
export function usePulls(id: string, agent: Agent | undefined): PullsSeen {
  const client = useClient();
  const known = agent ? opened(agent).map((p) => p.url) : [];
  return useLoad(async () => (known.length > 0 ? client.pullRequests(id) : { items: [] }), [id, known], known.length > 0 ? look : 0);
}
