import { memo, useRef } from "react";
import type { AgentSummary, Approval } from "../api/types";
import { headOf, kindOf } from "../approvals/kind";
import { Quick } from "../approvals/Quick";
import { useWhole } from "../approvals/whole";
import { Icon } from "../parts/Icon";
import { StatusBadge } from "../parts/Status";
import { shownLine } from "../parts/clip";
import { exact, since } from "../parts/time";
import { opened, standOf, toneOfPull } from "../changes/pulls";
import { link } from "../route";
import { words } from "../words";
import { repoName } from "../parts/status";

type Props = {
  agent: AgentSummary;
  now: number;
  index: number;
  total: number; // -1 if unknown
  top: number; // in pixels
  active: boolean;
  picked: boolean;
  questions: Approval[] | undefined;
  toggle: (id: string) => void;
  focused: (id: string) => void;
};

export const AgentRow = memo(function AgentRow({ agent: a, now, index, total, top, active, picked, questions, toggle, focused }: Props) {
  const name = a.name ?? words.agents.untitled;
  const repo = a.repos?.[0];
  const pull = opened(a).at(-1);
  const stand = pull && standOf(pull);
  return (
    <li
      className="agent-row" data-index={index} data-picked={picked ? "" : undefined} aria-setsize={total} aria-posinset={index + 1}
      style={{ transform: `translateY(${top}px)` }}
    >
      <input type="checkbox" tabIndex={-1} checked={picked} onChange={() => toggle(a.id)} aria-label={words.agents.select(shownLine(name))} />
      <a {...link({ page: "agent", id: a.id, tab: "conversation" })} tabIndex={active ? 0 : -1} onFocus={() => focused(a.id)}>
        <span className="name cut" dir="auto">
          {shownLine(name)}
        </span>
        <span className="about">
          <span className="repo cut">{repo ? repoName(repo.url) : words.agents.noRepo}</span>
          {pull && stand && (
            <span className="row-pull" data-tone={toneOfPull[stand]} title={words.pulls.sign(pull.number ?? 0, words.pulls.stand[stand])}>
              <Icon name="branch" />#{pull.number} {words.pulls.stand[stand].toLowerCase()}
            </span>
          )}
          {a.doing && (
            <span className="cut" dir="auto">
              {shownLine(a.doing)}
            </span>
          )}
        </span>
      </a>
      <StatusBadge agent={a} />
      <time className="when" dateTime={a.updatedAt} title={exact(a.updatedAt)}>
        {since(a.updatedAt, now)}
      </time>
      {questions?.[0] && <Asks question={questions[0]} more={questions.length - 1} tab={active ? 0 : -1} />}
    </li>
  );
});

/** The agent's question, and the answers that need only one click. */
function Asks({ question: q, more, tab }: { question: Approval; more: number; tab: number }) {
  const kind = kindOf(q);
  const box = useRef<HTMLDivElement>(null);
  const whole = useWhole(box, q.id, more > 0);
  return (
    <div className="row-asks" ref={box}>
      <Icon name={kind === "question" ? "help" : kind === "plan" ? "list" : "approvals"} />
      {q.hidden ? (
        <span className="cut grow">{headOf(q)}</span>
      ) : kind === "call" ? (
        <span className="cut grow" data-request="">
          <strong>{shownLine(q.tool)}</strong> <code>{shownLine(q.subject)}</code>
        </span>
      ) : (
        <span className="cut grow" data-request="" dir="auto">
          {shownLine((q.questions?.length === 1 && q.questions[0]?.prompt) || q.subject)}
        </span>
      )}
      {more > 0 && <span className="small faint">{words.approval.more(more)}</span>}
      <Quick approval={q} whole={whole && !q.hidden} tab={tab} />
    </div>
  );
}
