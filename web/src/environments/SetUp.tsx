import { useLoad, useClient } from "../api/use";
import { look } from "../agent/Talk";
import { Failed, Loading } from "../parts/State";
import { ByAgent } from "./ByAgent";
import { ByHand } from "./ByHand";

/** The page of a machine that a person or an agent is setting up. */
export default function SetUp({ id }: { id: string }) {
  const client = useClient();
  const loaded = useLoad(() => client.agent(id), [id], look);
  const { data, failure, loading, reload } = loaded;
  if (failure && !data) return <Failed failure={failure} retry={reload} top />;
  if (loading || !data) return <Loading />;
  return data.env.preset === "vmSetupHelper" ? <ByAgent agent={data} loaded={loaded} /> : <ByHand agent={data} />;
}
