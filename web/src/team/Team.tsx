import { useState, type FormEvent } from "react";
import { Once } from "../account/Once";
import type { AuditEntry, Role, User } from "../api/types";
import { useClient, useLoad, type Loaded } from "../api/use";
import { Empty, Failed, Loading } from "../parts/State";
import { since, useNow } from "../parts/time";
import { toastFailure } from "../parts/toast";
import { session, useMay } from "../api/session";
import { words } from "../words";
import { DiskUsage } from "./DiskUsage";
import { Usage } from "./Usage";
import { shownLine } from "../parts/clip";

const w = words.team;
const roles: Role[] = ["viewer", "member", "admin", "owner"];
const nameOf = (u: User) => shownLine([u.firstName, u.lastName].filter(Boolean).join(" ") || u.email || "") || w.nobody;

/** The members, their usage and, for admins, the team's settings. */
export default function Team() {
  const admin = useMay("admin");
  const client = useClient();
  const members = useLoad(client.members, []);
  return (
    <div className="scroll">
      <header className="top">
        <h1>{w.title}</h1>
      </header>
      <div className="wide">
        <Members list={members} />
        {!members.loading && <Usage />} {/* not before, since the list would push it down */}
        {!members.loading && <DiskUsage />}
        {!members.loading && admin && <Audit />}
      </div>
    </div>
  );
}

function Members({ list }: { list: Loaded<{ items: User[] }> }) {
  const client = useClient();
  const admin = useMay("admin");
  const owner = useMay("owner");
  const me = session.use()?.user?.id;
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("member");
  const [link, setLink] = useState<{ url: string; expiresAt: string }>();
  const may = (u: User) => admin && u.id !== me && (owner || u.role === "member" || u.role === "viewer");
  const offered = owner ? roles : roles.slice(0, 2);
  const invite = async (e: FormEvent) => {
    e.preventDefault();
    try {
      setLink((await client.invite({ email: email.trim(), role })).link);
      setEmail("");
      list.reload();
    } catch (e) {
      toastFailure(e);
    }
  };
  const change = (u: User, what: { role?: Role; disabled?: boolean }) => void client.updateMember(u.id, what).then(list.reload, toastFailure);
  const pick = (label: string, value: Role, set: (r: Role) => void, disabled = false) => (
    <select className="input role" aria-label={label} value={value} disabled={disabled} onChange={(e) => set(e.target.value as Role)}>
      {(disabled ? roles : offered).map((r) => (
        <option key={r} value={r}>
          {w.roles[r]}
        </option>
      ))}
    </select>
  );
  return (
    <section className="card part">
      <h2>{w.members}</h2>
      {list.loading && !list.data && <Loading rows={3} />}
      {list.failure && !list.data && <Failed failure={list.failure} retry={list.reload} />}
      <ul className="rows">
        {list.data?.items.map((u) => (
          <li key={u.id}>
            <span className="grow ellipsis">
              {nameOf(u)} {u.email && u.email !== nameOf(u) && <span className="muted small">{u.email}</span>}
            </span>
            {u.disabled && <span className="badge" data-tone="red">{w.disabled}</span>}
            {may(u) ? (
              <>
                <button type="button" className="button small" onClick={() => void client.signInLink(u.id).then(setLink, toastFailure)}>
                  {w.link}
                </button>
                <button type="button" className={`button small${u.disabled ? "" : " danger"}`} onClick={() => change(u, { disabled: !u.disabled })}>
                  {u.disabled ? w.enable : w.disable}
                </button>
                {pick(w.roleOf(nameOf(u)), u.role, (r) => change(u, { role: r }))}
              </>
            ) : (
              <span className="badge">{w.roles[u.role]}</span>
            )}
          </li>
        ))}
      </ul>
      {link && <Once text={link.url} words={w.linkOnce(new Date(link.expiresAt).toLocaleString())} close={() => setLink(undefined)} />}
      {admin && !list.loading && (
        <form className="line" onSubmit={(e) => void invite(e)}>
          <input className="input" type="email" aria-label={w.inviteEmail} placeholder={w.inviteEmail} required value={email} onChange={(e) => setEmail(e.target.value)} />
          {pick(w.roleOf(w.inviteEmail), role, setRole)}
          <button type="submit" className="button">
            {w.invite}
          </button>
        </form>
      )}
    </section>
  );
}

function Audit() {
  const client = useClient();
  const first = useLoad(() => client.audit(), []);
  const now = useNow();
  const [older, setOlder] = useState<{ items: AuditEntry[]; next?: number | undefined }>();
  const items = [...(first.data?.items ?? []), ...(older?.items ?? [])];
  const next = older ? older.next : first.data?.nextBefore;
  const more = () =>
    void client.audit(next).then((page) => setOlder({ items: [...(older?.items ?? []), ...page.items], next: page.nextBefore }), toastFailure);
  return (
    <section className="card part">
      <h2>{w.audit}</h2>
      {first.loading && !first.data && <Loading rows={4} />}
      {first.failure && !first.data && <Failed failure={first.failure} retry={first.reload} />}
      {first.data && items.length === 0 && <Empty icon="clock" title={w.noAudit} />}
      <ul className="rows audit">
        {items.map((a) => (
          <li key={a.id}>
            <time className="muted small" dateTime={a.time} title={new Date(a.time).toLocaleString()}>
              {since(a.time, now)}
            </time>
            <span className="ellipsis">{shownLine(a.user ?? "") || w.nobody}</span>
            <span className="grow ellipsis mono small">
              {a.action} {a.target}
            </span>
            <span className="muted small">{a.address}</span>
            <span className="badge" data-tone={a.outcome === "ok" ? "green" : "red"}>
              {a.outcome}
            </span>
          </li>
        ))}
      </ul>
      {next !== undefined && (
        <div>
          <button type="button" className="button" onClick={more}>
            {w.more}
          </button>
        </div>
      )}
    </section>
  );
}
