import { useLoad, useClient } from "../api/use";
import { look } from "../agent/Talk";
import { Failed, Loading } from "../parts/State";
import { ByAgent } from "./ByAgent";
import { ByHand } from "./ByHand";

/** A machine that is being set up, by a person in a shell or by an agent, and what is made of it. */
export default function SetUp({ id }: { id: string }) {
  const client = useClient();
  const loaded = useLoad(() => client.agent(id), [id], look);
  const { data, failure, loading, reload } = loaded;
  if (failure && !data) return <Failed failure={failure} retry={reload} top />;
  if (loading || !data) return <Loading />;
  return data.env.preset === "vmSetupHelper" ? <ByAgent agent={data} loaded={loaded} /> : <ByHand agent={data} />;
}
