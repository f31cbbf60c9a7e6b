import { useVirtualizer } from "@tanstack/react-virtual";
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import type { AgentSummary, Approval } from "../api/types";
import { useAnswer } from "../approvals/answer";
import { oneLine } from "../approvals/kind";
import { useApprovals } from "../approvals/store";
import { isSeen } from "../approvals/whole";
import { useClient } from "../api/use";
import { useKey } from "../keys";
import { Icon } from "../parts/Icon";
import { Empty, Failed, Loading } from "../parts/State";
import { useNow } from "../parts/time";
import { go } from "../route";
import { useMay } from "../api/session";
import { words } from "../words";
import { archiveAll, stopAll } from "./bulk";
import { findOf, Filters, useFilters } from "./Filters";
import { AgentRow } from "./Row";
import { openSpawn } from "./spawn";
import { asksFirst, isOpen } from "../parts/status";
import { asking, refreshAgents, useAgents } from "../store/agents";

const FirstSteps = lazy(() => import("./FirstSteps"));

const rowHeight = 60;
const asksHeight = 44; // additional height of a row with a question

/** The list of agents: those that wait for an answer, then the newest. */
export function AgentList() {
  const client = useClient();
  const [filters, setFilters] = useFilters();
  const find = findOf(filters);
  const list = useAgents(client, find);
  const first = useAgents(client, find.status === undefined ? { ...find, ...asking } : find);
  const now = useNow();
  const admin = useMay("admin");
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const rows = useMemo(() => (find.status === undefined ? asksFirst(first.items, list.items) : list.items), [find.status, first.items, list.items]);
  const { see: seeFirst } = first;
  const { see: seeList } = list;
  const before = find.status === undefined ? first.items.length : 0;
  const see = useCallback(
    (from: number, to: number) => {
      seeFirst(from, to);
      seeList(Math.max(0, from - before), to);
    },
    [seeFirst, seeList, before],
  );
  const narrowed = Object.keys(find).length > 0;
  const chosen = rows.filter((a) => picked.has(a.id));
  const none = () => setPicked(new Set());
  const act = (what: Promise<unknown>) => void what.finally(none);
  useKey("Escape", none, chosen.length > 0);

  return (
    <>
      <header className="top" data-picking={chosen.length > 0 ? "" : undefined}>
        <h1>{words.agents.title}</h1>
        <span className="faint small" aria-live="polite">
          {!list.loading && rows.length > 0 && words.agents.count(rows.length, list.more)}
        </span>
        <span className="grow" />
        {chosen.length > 0 && (
          <div className="row" role="group" aria-label={words.agents.selected(chosen.length)}>
            <span className="small muted">{words.agents.selected(chosen.length)}</span>
            {chosen.length < rows.length && (
              <button type="button" className="button quiet small wide-only" onClick={() => setPicked(new Set(rows.map((a) => a.id)))}>
                {words.agents.all(rows.length)}
              </button>
            )}
            <button type="button" className="button small" onClick={() => act(stopAll(client, chosen))} disabled={!chosen.some(isOpen)}>
              <Icon name="stop" /> {words.agents.stop}
            </button>
            <button type="button" className="button small" onClick={() => act(archiveAll(client, chosen))}>
              <Icon name="archive" /> {chosen.every((a) => a.status === "ARCHIVED") ? words.agents.unarchive : words.agents.archive}
            </button>
            <button type="button" className="button quiet square small" aria-label={words.agents.selectNone} onClick={none}>
              <Icon name="close" />
            </button>
          </div>
        )}
      </header>
      <Filters filters={filters} set={setFilters} />
      {list.loading && rows.length === 0 ? (
        <Loading />
      ) : list.failure && rows.length === 0 ? (
        <Failed failure={list.failure} retry={refreshAgents} />
      ) : rows.length > 0 ? (
        <Rows find={JSON.stringify(find)} rows={rows} now={now} picked={picked} setPicked={setPicked} see={see} more={list.more} />
      ) : narrowed ? (
        <Empty icon={find.status === asking.status ? "check" : "search"} title={find.status === asking.status ? words.agents.noneAsks : words.agents.noMatch}>
          <p>{find.status === asking.status ? words.agents.noneAsksLead : words.agents.noMatchLead}</p>
          <button type="button" className="button" onClick={() => setFilters({})}>
            {words.agents.clear}
          </button>
        </Empty>
      ) : admin ? (
        <Suspense fallback={<Loading rows={3} />}>
          <FirstSteps />
        </Suspense>
      ) : (
        <Empty icon="agents" title={words.agents.none}>
          <p>{words.agents.noneLead}</p>
          <button type="button" className="button first" onClick={openSpawn}>
            {words.agents.spawn}
          </button>
        </Empty>
      )}
    </>
  );
}

/**
 * The position in the list when it was last left: its scroll offset in pixels and the current
 * agent.
 */
const left = { find: "", offset: 0, active: "" };

type RowsProps = {
  find: string; // the filters
  rows: readonly AgentSummary[];
  now: number;
  picked: ReadonlySet<string>;
  setPicked: (change: (old: ReadonlySet<string>) => ReadonlySet<string>) => void;
  see: (first: number, last: number) => void;
  more: boolean;
};

/** The visible rows. Arrow keys, or j and k, move between them. */
function Rows({ find, rows, now, picked, setPicked, see, more }: RowsProps) {
  const client = useClient();
  const { items: approvals } = useApprovals(client);
  const { answer } = useAnswer();
  const questions = useMemo(() => {
    const of = new Map<string, Approval[]>();
    for (const a of approvals) of.set(a.agentId, [...(of.get(a.agentId) ?? []), a]);
    return of;
  }, [approvals]);
  const box = useRef<HTMLDivElement>(null);
  const [back] = useState(() => left.find === find && left.offset > 0);
  const [active, setActive] = useState(() => (rows.some((a) => a.id === left.active) && left.find === find ? left.active : rows[0]?.id));
  const wants = useRef(false); // whether the active row should get the focus
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: (i) => rowHeight + (questions.has(rows[i]?.id ?? "") ? asksHeight : 0),
    overscan: 12,
    initialOffset: back ? left.offset : 0,
    getItemKey: (i) => rows[i]?.id ?? i,
  });
  useEffect(() => {
    left.find = find;
    left.active = active ?? "";
  }, [find, active]);
  useEffect(() => virtual.measure(), [virtual, questions, rows]); // rows of agents with a question are higher
  const at = Math.max(0, rows.findIndex((a) => a.id === active));
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => see(first, last), [see, first, last, rows.length]);

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
    setActive(rows[next]?.id);
    virtual.scrollToIndex(next, { align: "auto" });
  };
  const toggle = useCallback(
    (id: string) =>
      setPicked((old) => {
        const now = new Set(old);
        if (!now.delete(id)) now.add(id);
        return now;
      }),
    [setPicked],
  );
  const here = rows[at];
  const several = rows.filter((a) => picked.has(a.id));
  const chosen = several.length > 0 ? several : here ? [here] : [];
  const question = here && questions.get(here.id)?.[0];
  const seen = (q: Approval) => oneLine(q) && q.tool !== "McpAuth" && isSeen(box.current?.querySelector(`[data-index="${at}"] .row-asks`));
  const review = (q: Approval) => go({ page: "agent", id: q.agentId, tab: "conversation" });
  const keys: Record<string, () => void> = {
    ArrowDown: () => move(at + 1),
    ArrowUp: () => move(at - 1),
    PageDown: () => move(at + 10),
    PageUp: () => move(at - 10),
    Home: () => move(0),
    End: () => move(rows.length - 1),
    x: () => here && toggle(here.id),
    s: () => void stopAll(client, chosen),
    e: () => void archiveAll(client, chosen),
    y: () => question && (seen(question) ? void answer(question, "allow_once") : review(question)),
    n: () => question && (seen(question) ? void answer(question, "deny") : review(question)),
  };
  const press = (e: KeyboardEvent) => {
    const act = e.ctrlKey || e.metaKey || e.altKey || (e.target as HTMLElement).tagName === "BUTTON" ? undefined : keys[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  };
  const within = () => document.activeElement?.closest(".agent-row");
  useKey("j", () => move(within() ? at + 1 : at));
  useKey("k", () => move(within() ? at - 1 : at));
  useKey("Enter", () => here && go({ page: "agent", id: here.id, tab: "conversation" }));

  return (
    <div className="scroll" ref={box} onKeyDown={press} onScroll={(e) => (left.offset = e.currentTarget.scrollTop)}>
      <ul className="agents-list" aria-label={words.agents.list} style={{ height: virtual.getTotalSize() }}>
        {items.map((v) => {
          const a = rows[v.index];
          return (
            a && (
              <AgentRow
                key={a.id} agent={a} now={now} index={v.index} total={more ? -1 : rows.length} top={v.start} active={v.index === at} picked={picked.has(a.id)} questions={questions.get(a.id)}
                toggle={toggle} focused={setActive}
              />
            )
          );
        })}
      </ul>
    </div>
  );
}
