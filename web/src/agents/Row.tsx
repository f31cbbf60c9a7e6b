import type { AgentSummary } from "../api/types";
import { StatusBadge } from "../parts/Status";
import { since } from "../parts/time";
import { link } from "../route";
import { words } from "../words";
import { repoName } from "./status";

type Props = {
  agent: AgentSummary;
  now: number;
  index: number;
  total: number;
  top: number; // in pixels
  active: boolean;
  picked: boolean;
  toggle: () => void;
  focused: () => void;
};

export function AgentRow({ agent: a, now, index, total, top, active, picked, toggle, focused }: Props) {
  const name = a.name ?? words.agents.untitled;
  const repo = a.repos?.[0];
  return (
    <li
      className="agent-row" data-index={index} data-picked={picked ? "" : undefined} aria-setsize={total} aria-posinset={index + 1}
      style={{ transform: `translateY(${top}px)` }}
    >
      <input type="checkbox" tabIndex={-1} checked={picked} onChange={toggle} aria-label={words.agents.select(name)} />
      <a {...link({ page: "agent", id: a.id, tab: "conversation" })} tabIndex={active ? 0 : -1} onFocus={focused}>
        <span className="name cut" dir="auto">
          {name}
        </span>
        <span className="about">
          <span className="repo cut">{repo ? repoName(repo.url) : words.agents.noRepo}</span>
          {a.doing && (
            <span className="cut" dir="auto">
              {a.doing}
            </span>
          )}
        </span>
      </a>
      <StatusBadge agent={a} />
      <time className="when" dateTime={a.updatedAt} title={new Date(a.updatedAt).toLocaleString()}>
        {since(a.updatedAt, now)}
      </time>
    </li>
  );
}
