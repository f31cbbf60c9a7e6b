import { useCallback, useDeferredValue, useEffect, useRef, useState } from "react";
import { useClient, useLoad } from "../api/use";
import { useKey } from "../keys";
import { useDraft } from "../parts/draft";
import { Icon } from "../parts/Icon";
import { session, useMay } from "../api/session";
import { words } from "../words";
import { repoName, standings } from "../parts/status";
import type { Find } from "../api/types";
import { shownLine } from "../parts/clip";

const w = words.agents;
const day = 86_400_000;
type Kind = keyof typeof standings;
type When = keyof typeof w.when;

/**
 * The filters that a person has chosen. They are stored in the URL, and kept as long as the tab is
 * open.
 */
export type FilterChoice = { search?: string; kind?: Kind; repository?: string; who?: string; when?: When; from?: string; to?: string };

const fields = { search: "q", kind: "status", repository: "repository", who: "who", when: "created", from: "from", to: "to" } as const;
const isDay = (text: string) => /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text));

/** choiceIn returns the filters in the query of a URL; undefined if it has none. */
export function choiceIn(query: string): FilterChoice | undefined {
  const q = new URLSearchParams(query);
  const out: Record<string, string> = {};
  for (const [field, name] of Object.entries(fields)) {
    const value = q.get(name);
    const known = field === "kind" ? Object.hasOwn(standings, value ?? "") : field === "when" ? Object.hasOwn(w.when, value ?? "") : field === "from" || field === "to" ? isDay(value ?? "") : field === "who" ? /^(everybody|\d+)$/.test(value ?? "") : true;
    if (value && known) out[field] = value;
  }
  return Object.keys(out).length > 0 ? (out as FilterChoice) : undefined;
}

/** queryOf returns a query with its filters replaced. Other parameters are kept. */
export function queryOf(choice: FilterChoice, query: string): string {
  const q = new URLSearchParams(query);
  for (const [field, name] of Object.entries(fields)) {
    const value = choice[field as keyof FilterChoice];
    if (value && value !== "all") q.set(name, value);
    else q.delete(name);
  }
  const text = q.toString();
  return text && `?${text}`;
}

/** The filters of the list: those in the URL, or else the last ones used in this tab. */
export function useFilters(): [FilterChoice, (now: FilterChoice) => void] {
  const [kept, keep] = useDraft<FilterChoice>("agents", {});
  const [given, give] = useState(() => choiceIn(location.search));
  const choice = given ?? kept;
  useEffect(() => {
    const query = queryOf(choice, location.search);
    if (query !== location.search) history.replaceState(null, "", location.pathname + query + location.hash);
  }, [choice]);
  const set = useCallback(
    (now: FilterChoice) => {
      give(undefined);
      keep(now);
    },
    [keep],
  );
  useEffect(() => {
    if (given) set(given);
  }, [given, set]);
  return [choice, set];
}

/** The start of a day in local time, in the API's format. more is a number of days to add. */
const dayAt = (text: string, more = 0): string => new Date(new Date(`${text}T00:00`).getTime() + more * day).toISOString();

/** findOf returns the query for the server. */
export function findOf(c: FilterChoice): Find {
  const out: Find = {};
  if (c.search?.trim()) out.search = c.search.trim();
  if (c.kind && standings[c.kind]) out.status = standings[c.kind];
  if (c.repository) out.repository = c.repository;
  if (c.who) out.user = c.who === "everybody" ? c.who : Number(c.who);
  const midnight = new Date().setHours(0, 0, 0, 0);
  const ago = { today: 0, week: 6, month: 29 }[c.when as string];
  if (ago !== undefined) out.from = new Date(midnight - ago * day).toISOString();
  if (c.when === "between") {
    if (c.from) out.from = dayAt(c.from);
    if (c.to) out.to = dayAt(c.to, 1);
  }
  return out;
}

const kinds = Object.keys(standings) as Kind[];

/** The search box and the other filters of the list. */
export function Filters({ filters: f, set }: { filters: FilterChoice; set: (now: FilterChoice) => void }) {
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(f.search ?? "");
  const wanted = useDeferredValue(text);
  const more = [f.repository, f.who, f.when].filter(Boolean).length;
  const [open, setOpen] = useState(more > 0);
  useKey("/", () => field.current?.focus());
  useKey("f", () => setOpen(!open));
  useEffect(() => {
    const later = setTimeout(() => {
      if (wanted !== (f.search ?? "")) set({ ...f, search: wanted });
    }, 150);
    return () => clearTimeout(later);
  }, [wanted, f, set]);
  const asked = useRef(f.search);
  if (asked.current !== f.search) {
    asked.current = f.search;
    if (!f.search) setText(""); // the search was cleared by another component
  }
  return (
    <>
      <div className="agents-tools">
        <div className="search" role="search">
          <Icon name="search" />
          <input
            ref={field} className="input" type="search" value={text} aria-label={w.search} placeholder={w.searchShort} onChange={(e) => setText(e.target.value)}
            onKeyDown={(e) => e.key === "Escape" && setText("")}
          />
          {!text && <kbd aria-hidden="true">/</kbd>}
        </div>
        <div className="pick" role="group" aria-label={w.filters}>
          {kinds.map((k) => (
            <button key={k} type="button" aria-pressed={(f.kind ?? "all") === k} onClick={() => set({ ...f, kind: k })}>
              {w.filter[k]}
            </button>
          ))}
        </div>
        <button type="button" className="button" aria-expanded={open} aria-controls="agents-more" onClick={() => setOpen(!open)}>
          <Icon name="filter" />
          {w.more}
          {more > 0 && <span className="badge">{more}</span>}
        </button>
      </div>
      {open && <More filters={f} set={set} />}
    </>
  );
}

function More({ filters: f, set }: { filters: FilterChoice; set: (now: FilterChoice) => void }) {
  const client = useClient();
  const me = session.use()?.user;
  const seesAll = useMay("admin") || me?.role === "viewer";
  const repos = useLoad(client.repositories, []);
  const members = useLoad(() => (seesAll ? client.members() : Promise.resolve({ items: [] })), [seesAll]);
  const known = repos.data?.items.map((r) => r.url) ?? [];
  if (f.repository && !known.includes(f.repository)) known.unshift(f.repository);
  return (
    <div className="agents-tools agents-more" id="agents-more" role="group" aria-label={w.more}>
      <Pick label={w.repository} value={f.repository ?? ""} set={(repository) => set({ ...f, repository })} options={[["", w.anyRepository], ...known.map((url): [string, string] => [url, repoName(url)])]} />
      {seesAll && (
        <Pick
          label={w.person} value={f.who ?? ""} set={(who) => set({ ...f, who })}
          options={[
            ["", w.mine],
            ["everybody", w.everybody],
            ...(members.data?.items ?? []).filter((u) => u.id !== me?.id).map((u): [string, string] => [String(u.id), shownLine([u.firstName, u.lastName].filter(Boolean).join(" ") || (u.email ?? ""))]),
          ]}
        />
      )}
      <Pick label={w.made} value={f.when ?? ""} set={(when) => set({ ...f, when: when as When })} options={Object.entries(w.when)} />
      {f.when === "between" &&
        (["from", "to"] as const).map((end) => (
          <label key={end} className="row small muted">
            {w[end]}
            <input className="input" type="date" value={f[end] ?? ""} min={end === "to" ? f.from : undefined} onChange={(e) => set({ ...f, [end]: e.target.value })} />
          </label>
        ))}
      {(f.repository || f.who || f.when) && (
        <button type="button" className="button quiet" onClick={() => set({ ...(f.search ? { search: f.search } : {}), ...(f.kind ? { kind: f.kind } : {}) })}>
          {w.clearMore}
        </button>
      )}
    </div>
  );
}

function Pick({ label, value, set, options }: { label: string; value: string; set: (value: string) => void; options: [string, string][] }) {
  return (
    <select className="input" aria-label={label} value={value} data-set={value ? "" : undefined} onChange={(e) => set(e.target.value)}>
      {options.map(([id, name]) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
  );
}
