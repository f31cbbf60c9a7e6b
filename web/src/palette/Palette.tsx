import { useEffect, useMemo, useRef, useState } from "react";
import { openSpawn } from "../agents/spawn";
import { useAgents } from "../store/agents";
import { useClient } from "../api/use";
import { keySheetOpen } from "../help/Keys";
import { keyName, useKey } from "../keys";
import { Dialog } from "../parts/Dialog";
import { Icon, type IconName } from "../parts/Icon";
import { Signal } from "../signal";
import { StatusBadge } from "../parts/Status";
import { go } from "../route";
import { ended } from "../api/session";
import { words } from "../words";
import type { AgentSummary } from "../api/types";
import { shownLine } from "../parts/clip";

const w = words.palette;
export const paletteOpen = new Signal(false);

type Item = { name: string; icon: IconName; key?: string; agent?: AgentSummary; act: () => void };
const most = 12; // maximum number of agents that are listed

const commands: Item[] = [
  { name: words.agents.spawn, icon: "plus", key: keyName("mod+e"), act: openSpawn },
  { name: words.nav.agents, icon: "agents", act: () => go({ page: "agents" }) },
  { name: words.nav.approvals, icon: "approvals", act: () => go({ page: "approvals" }) },
  { name: words.nav.environments, icon: "environments", act: () => go({ page: "environments" }) },
  { name: words.nav.settings, icon: "settings", act: () => go({ page: "settings" }) },
  { name: words.nav.team, icon: "team", act: () => go({ page: "team" }) },
  { name: words.keys.title, icon: "keyboard", key: "?", act: () => keySheetOpen.set(true) },
  { name: words.nav.account, icon: "key", act: () => go({ page: "account" }) },
];

/** The command palette, which Ctrl K or ⌘ K opens on every page. */
export function Palette() {
  const open = paletteOpen.use();
  useKey("mod+k", () => paletteOpen.set(!paletteOpen.get()));
  return open ? <Commands /> : null;
}

function Commands() {
  const client = useClient();
  const [search, setSearch] = useState("");
  const [wanted, setWanted] = useState("");
  useEffect(() => {
    const later = setTimeout(() => setWanted(search.trim()), 120);
    return () => clearTimeout(later);
  }, [search]);
  const { items, loading } = useAgents(client, wanted ? { search: wanted } : {});
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const found = useMemo((): Item[] => {
    const wanted = search.toLowerCase().trim();
    const agents = items.slice(0, most);
    return [
      ...[...commands, { name: words.signIn.out, icon: "out", act: () => void client.signOut().finally(ended) } as const].filter((c) => c.name.toLowerCase().includes(wanted)),
      ...agents.map((agent): Item => ({ name: agent.name ?? words.agents.untitled, icon: "agents", agent, act: () => go({ page: "agent", id: agent.id, tab: "conversation" }) })),
    ];
  }, [client, items, search]);
  const close = () => paletteOpen.set(false);
  const run = (item: Item | undefined) => {
    if (!item) return;
    close();
    item.act();
  };
  const move = (to: number) => {
    const next = (to + found.length) % Math.max(1, found.length);
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  return (
    <Dialog title={w.title} close={close} className="palette">
      <div className="body">
        <input
          className="input" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={found[at] ? `palette-${at}` : undefined} aria-label={w.search}
          placeholder={w.search} autoFocus value={search}
          onChange={(e) => {
            setSearch(e.target.value);
            setAt(0);
          }}
          onKeyDown={(e) => {
            const keys: Record<string, () => void> = { ArrowDown: () => move(at + 1), ArrowUp: () => move(at - 1), Enter: () => run(found[at]) };
            const act = keys[e.key];
            if (!act) return;
            e.preventDefault();
            act();
          }}
        />
        <ul id="palette-list" role="listbox" aria-label={w.title} ref={list}>
          {found.map((item, i) => (
            <li key={item.agent?.id ?? item.name} id={`palette-${i}`} role="option" aria-selected={i === at} onMouseMove={() => setAt(i)} onClick={() => run(item)}>
              <Icon name={item.icon} />
              <span className="cut grow" dir="auto">
                {shownLine(item.name)}
              </span>
              {item.agent && <StatusBadge agent={item.agent} />}
              {item.key && <kbd>{item.key}</kbd>}
            </li>
          ))}
        </ul>
        <p className="none" role="status">
          {found.length === 0 && !loading && w.none}
        </p>
      </div>
    </Dialog>
  );
}
