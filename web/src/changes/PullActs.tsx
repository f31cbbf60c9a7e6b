import { enqueue } from "../store/queue";
import { isOpen } from "../parts/status";
import type { Agent } from "../api/types";
import { Icon } from "../parts/Icon";
import { shownLine } from "../parts/clip";
import { toast } from "../parts/toast";
import { link } from "../route";
import { useMay } from "../api/session";
import { words } from "../words";
import { address, standOf, toneOfCheck, toneOfPull, toneOfReview, type Row } from "./pulls";

const w = words.pulls;
type Known = NonNullable<Row["pull"]>;

/** Follow-up prompts for an open pull request: fix its checks, address its review. */
export function PullActs({ agent, pull: p }: { agent: Agent; pull: Known }) {
  const may = useMay("member");
  if (!may || agent.status !== "ACTIVE" || p.state !== "open" || !p.number) return null;
  const ask = (prompt: string) => {
    enqueue(agent.id, prompt, []);
    toast(isOpen(agent) ? w.askQueued : w.askSent);
  };
  const several = (agent.repos?.length ?? 0) > 1;
  const which = several ? `${p.repoUrl}#${p.number}` : `#${p.number}`;
  return (
    <>
      {p.checksState === "failure" && (
        <button type="button" className="button small" title={w.fixTitle} onClick={() => ask(w.fixPrompt(which))}>
          <Icon name="refresh" /> {w.fix}
        </button>
      )}
      {(p.review === "changes_requested" || (p.openThreads ?? 0) > 0) && (
        <button type="button" className="button small" title={w.reviewTitle} onClick={() => ask(w.reviewPrompt(which))}>
          <Icon name="comment" /> {w.review}
        </button>
      )}
    </>
  );
}

/** The verdict and the open threads of a review. */
export function ReviewFacts({ pull: p }: { pull: Known }) {
  return (
    <>
      {p.review && (
        <span className="badge" data-tone={toneOfReview[p.review]}>
          {w.verdict[p.review]}
        </span>
      )}
      {(p.openThreads ?? 0) > 0 && <span className="small muted">{w.threads(p.openThreads ?? 0)}</span>}
    </>
  );
}

/** The open pull requests of an agent, one line each, with their actions. */
export function PullStrip({ agent, pulls }: { agent: Agent; pulls: readonly Known[] }) {
  const open = pulls.filter((p) => p.state === "open" && p.url);
  if (open.length === 0) return null;
  return (
    <ul className="pull-strip" aria-label={w.title}>
      {open.map((p) => (
        <li key={p.url} className="row">
          <span className="badge" data-tone={toneOfPull[standOf(p)]}>
            {w.stand[standOf(p)]}
          </span>
          <a className="cut" href={address(p.url)} target="_blank" rel="noreferrer noopener" dir="auto" title={p.title}>
            #{p.number} {shownLine(p.title ?? "")}
          </a>
          {p.checks && p.checks.length > 0 && (
            <a className="small row pull-checks" {...link({ page: "agent", id: agent.id, tab: "changes" })}>
              <span className="dot" data-tone={toneOfCheck[p.checksState ?? "neutral"]} /> {w.checks(p.checks)}
            </a>
          )}
          <ReviewFacts pull={p} />
          <PullActs agent={agent} pull={p} />
        </li>
      ))}
    </ul>
  );
}
