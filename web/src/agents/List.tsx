import { useVirtualizer } from "@tanstack/react-virtual";
import { useDeferredValue, useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { useClient } from "../api/use";
import { useKey } from "../keys";
import { Icon } from "../parts/Icon";
import { Empty, Failed, Loading } from "../parts/State";
import { toast } from "../parts/toast";
import { useNow } from "../parts/time";
import { go } from "../route";
import { words } from "../words";
import { AgentRow } from "./Row";
import { openSpawn } from "./spawn";
import { isOpen, listed, type Filter } from "./status";
import { useAgents } from "./store";

const filters = Object.keys(words.agents.filter) as Filter[];
const rowHeight = 60;

/** The list of all agents. */
export function AgentList() {
  const client = useClient();
  const { items, loading, failure, refresh } = useAgents(client);
  const now = useNow();
  const [filter, setFilter] = useState<Filter>("all");
  const [search, setSearch] = useState("");
  const wanted = useDeferredValue(search);
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const field = useRef<HTMLInputElement>(null);
  const rows = useMemo(() => listed(items, filter, wanted, now), [items, filter, wanted, now]);
  useKey("/", () => field.current?.focus());

  const chosen = rows.filter((a) => picked.has(a.id));
  const toEach = async (what: (id: string, runId: string) => Promise<unknown>, some = chosen) => {
    const done = await Promise.allSettled(some.map((a) => what(a.id, a.latestRunId ?? "")));
    const bad = done.find((one) => one.status === "rejected");
    if (bad) toast(String((bad.reason as Error).message), true);
    setPicked(new Set());
    refresh();
  };

  return (
    <>
      <header className="top">
        <h1>{words.agents.title}</h1>
        <span className="faint small" aria-live="polite">
          {!loading && words.agents.count(rows.length)}
        </span>
        <span className="grow" />
        {chosen.length > 0 && (
          <>
            <span className="small muted">{words.agents.selected(chosen.length)}</span>
            <button type="button" className="button small" onClick={() => void toEach(client.cancel, chosen.filter(isOpen))} disabled={!chosen.some(isOpen)}>
              <Icon name="stop" /> {words.agents.stop}
            </button>
            <button type="button" className="button small" onClick={() => void toEach(client.archive)}>
              <Icon name="archive" /> {words.agents.archive}
            </button>
          </>
        )}
      </header>
      <div className="agents-tools">
        <div className="search" role="search">
          <Icon name="search" />
          <input
            ref={field} className="input" type="search" value={search} aria-label={words.agents.search} placeholder={words.agents.searchShort}
            onChange={(e) => setSearch(e.target.value)}
            onKeyDown={(e) => {
              if (e.key === "Escape") setSearch("");
            }}
          />
          {!search && <kbd aria-hidden="true">/</kbd>}
        </div>
        <div className="pick" role="group" aria-label={words.agents.filters}>
          {filters.map((f) => (
            <button key={f} type="button" aria-pressed={filter === f} onClick={() => setFilter(f)}>
              {words.agents.filter[f]}
            </button>
          ))}
        </div>
      </div>
      {loading && items.length === 0 ? (
        <Loading />
      ) : failure && items.length === 0 ? (
        <Failed failure={failure} retry={refresh} />
      ) : rows.length === 0 ? (
        items.length === 0 ? (
          <Empty icon="agents" title={words.agents.none}>
            <p>{words.agents.noneLead}</p>
            <button type="button" className="button first" onClick={openSpawn}>
              {words.agents.spawn}
            </button>
          </Empty>
        ) : (
          <Empty icon="search" title={words.agents.noMatch}>
            <p>{words.agents.noMatchLead}</p>
            <button
              type="button" className="button"
              onClick={() => {
                setSearch("");
                setFilter("all");
              }}
            >
              {words.agents.clear}
            </button>
          </Empty>
        )
      ) : (
        <Rows rows={rows} now={now} picked={picked} setPicked={setPicked} />
      )}
    </>
  );
}

type RowsProps = {
  rows: ReturnType<typeof listed>;
  now: number;
  picked: ReadonlySet<string>;
  setPicked: (change: (old: ReadonlySet<string>) => ReadonlySet<string>) => void;
};

/** The rows that are in sight. Arrow keys, or j and k, go from one to the next. */
function Rows({ rows, now, picked, setPicked }: RowsProps) {
  const box = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(0);
  const wants = useRef(false); // the active row is to have the focus
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => rowHeight, overscan: 12, getItemKey: (i) => rows[i]?.id ?? i });
  const at = Math.min(active, rows.length - 1);

  useEffect(() => {
    if (!wants.current) return;
    const link = box.current?.querySelector<HTMLElement>(`[data-index="${at}"] a`);
    if (link) {
      wants.current = false;
      link.focus({ preventScroll: true });
    }
  });
  const move = (to: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    wants.current = true;
    setActive(next);
    virtual.scrollToIndex(next, { align: "auto" });
  };
  const toggle = (id: string) =>
    setPicked((old) => {
      const now = new Set(old);
      if (!now.delete(id)) now.add(id);
      return now;
    });
  const keys: Record<string, () => void> = {
    ArrowDown: () => move(at + 1),
    ArrowUp: () => move(at - 1),
    PageDown: () => move(at + 10),
    PageUp: () => move(at - 10),
    Home: () => move(0),
    End: () => move(rows.length - 1),
    x: () => rows[at] && toggle(rows[at].id),
  };
  const press = (e: KeyboardEvent) => {
    const act = e.ctrlKey || e.metaKey || e.altKey ? undefined : keys[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  };
  useKey("j", () => move(document.activeElement?.closest(".agent-row") ? at + 1 : at));
  useKey("k", () => move(document.activeElement?.closest(".agent-row") ? at - 1 : at));
  useKey("Enter", () => rows[at] && go({ page: "agent", id: rows[at].id, tab: "conversation" }), document.activeElement === document.body);

  return (
    <div className="scroll" ref={box} onKeyDown={press}>
      <ul className="agents-list" aria-label={words.agents.list} style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((v) => {
          const a = rows[v.index];
          return (
            a && (
              <AgentRow
                key={a.id} agent={a} now={now} index={v.index} total={rows.length} top={v.start} active={v.index === at} picked={picked.has(a.id)}
                toggle={() => toggle(a.id)} focused={() => setActive(v.index)}
              />
            )
          );
        })}
      </ul>
    </div>
  );
}
