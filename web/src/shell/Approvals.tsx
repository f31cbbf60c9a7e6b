import { asking, useAgents } from "../store/agents";
import { useClient } from "../api/use";
import { NoticesOffer } from "../notices/Switch";
import { Empty, Failed, Loading } from "../parts/State";
import { words } from "../words";
import { ApprovalCard } from "../approvals/Card";
import { refreshApprovals, useApprovals } from "../approvals/store";

/** All pending approvals, oldest first. */
export default function Approvals() {
  const client = useClient();
  const { items, failure, loading } = useApprovals(client);
  const agents = useAgents(client, asking);
  return (
    <>
      <header className="top">
        <h1 className="grow">{words.approval.title}</h1>
        <NoticesOffer />
      </header>
      <div className="scroll">
        {loading ? (
          <Loading />
        ) : failure && items.length === 0 ? (
          <Failed failure={failure} retry={refreshApprovals} />
        ) : items.length === 0 ? (
          <Empty icon="approvals" title={words.approval.none}>
            <p>{words.approval.noneLead}</p>
          </Empty>
        ) : (
          <div className="wide">
            {items.map((a) => {
              const name = agents.items.find((one) => one.id === a.agentId)?.name;
              return <ApprovalCard key={a.id} approval={a} {...(name ? { name } : {})} />;
            })}
          </div>
        )}
      </div>
    </>
  );
}
