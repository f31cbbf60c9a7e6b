import { useAgents } from "../agents/store";
import { useClient, useLoad } from "../api/use";
import { Empty, Failed, Loading } from "../parts/State";
import { words } from "../words";
import { ApprovalCard } from "./Card";

/** All that waits for an answer, the oldest question first. */
export default function Approvals() {
  const client = useClient();
  const { data, failure, loading, reload } = useLoad(client.approvals, [], 3_000);
  const { items } = useAgents(client);
  return (
    <>
      <header className="top">
        <h1>{words.approval.title}</h1>
      </header>
      <div className="scroll">
        {loading ? (
          <Loading />
        ) : failure && !data ? (
          <Failed failure={failure} retry={reload} />
        ) : data?.items.length === 0 ? (
          <Empty icon="approvals" title={words.approval.none}>
            <p>{words.approval.noneLead}</p>
          </Empty>
        ) : (
          <div className="wide">
            {data?.items.map((a) => {
              const name = items.find((one) => one.id === a.agentId)?.name;
              return <ApprovalCard key={a.id} approval={a} answered={reload} {...(name ? { name } : {})} />;
            })}
          </div>
        )}
      </div>
    </>
  );
}
