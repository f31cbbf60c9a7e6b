import { useState, type FormEvent } from "react";
import type { ApiKey, Passkey } from "../api/types";
import { useClient, useLoad, type Loaded } from "../api/use";
import { Failed, Loading, Problem } from "../parts/State";
import { since, useNow } from "../parts/time";
import { toast, toastFailure } from "../parts/toast";
import { declined, hasPasskeys, make } from "../passkey";
import { ended, session } from "../api/session";
import { words } from "../words";
import { Once } from "./Once";
import { shownLine } from "../parts/clip";

const w = words.account;

/** A user's own settings: name, password, passkeys, API keys, sessions. */
export default function Account() {
  const now = session.use();
  const client = useClient();
  const passkeys = useLoad(client.passkeys, []);
  const wayIn = now?.password || passkeys.loading || (passkeys.data?.items.length ?? 0) > 0 || now?.provider;
  return (
    <div className="scroll">
      <header className="top">
        <h1 className="grow">{w.title}</h1>
        <button type="button" className="button small narrow-only" onClick={() => void client.signOut().finally(ended)}>
          {words.signIn.out}
        </button>
      </header>
      <div className="wide">
        {!wayIn && <Problem tone="amber">{w.noWayIn}</Problem>}
        <Profile />
        <Password />
        <Passkeys list={passkeys} />
        <Keys />
      </div>
    </div>
  );
}

function Profile() {
  const client = useClient();
  const now = session.use();
  const user = now?.user;
  const [form, setForm] = useState({ firstName: user?.firstName ?? "", lastName: user?.lastName ?? "", email: user?.email ?? "" });
  const fixed = user?.email !== undefined && user.role !== "admin" && user.role !== "owner";
  const save = async (e: FormEvent) => {
    e.preventDefault();
    try {
      const saved = await client.updateMe({ firstName: form.firstName, lastName: form.lastName, ...(fixed || !form.email ? {} : { email: form.email }) });
      if (now) session.set({ ...now, user: saved });
      toast(w.saved);
    } catch (e) {
      toastFailure(e);
    }
  };
  const field = (name: keyof typeof form, label: string, kind: string, auto: string, disabled = false) => (
    <div className="field">
      <label htmlFor={name}>{label}</label>
      <input id={name} className="input" type={kind} autoComplete={auto} disabled={disabled} value={form[name]} onChange={(e) => setForm({ ...form, [name]: e.target.value })} />
      {disabled && <span className="hint">{w.emailHint}</span>}
    </div>
  );
  return (
    <form className="card part" onSubmit={(e) => void save(e)}>
      <h2>{w.profile}</h2>
      <div className="pair">
        {field("firstName", w.firstName, "text", "given-name")}
        {field("lastName", w.lastName, "text", "family-name")}
      </div>
      {field("email", w.email, "email", "email", fixed)}
      <div>
        <button type="submit" className="button">
          {w.save}
        </button>
      </div>
    </form>
  );
}

function Password() {
  const client = useClient();
  const now = session.use();
  const [current, setCurrent] = useState("");
  const [password, setPassword] = useState("");
  const save = async (e: FormEvent) => {
    e.preventDefault();
    try {
      await client.setPassword(password, current);
      setCurrent("");
      setPassword("");
      if (now) session.set({ ...now, password: true });
      toast(w.passwordSet);
    } catch (e) {
      toastFailure(e);
    }
  };
  return (
    <form className="card part" onSubmit={(e) => void save(e)}>
      <h2>{w.password}</h2>
      {!now?.user?.email && <p className="muted">{w.needEmail}</p>}
      <input type="hidden" autoComplete="username" value={now?.user?.email ?? ""} readOnly />
      <div className="pair">
        {now?.password && (
          <div className="field">
            <label htmlFor="current">{w.current}</label>
            <input id="current" className="input" type="password" autoComplete="current-password" required value={current} onChange={(e) => setCurrent(e.target.value)} />
          </div>
        )}
        <div className="field">
          <label htmlFor="next">{w.next}</label>
          <input id="next" className="input" type="password" autoComplete="new-password" minLength={12} required value={password} onChange={(e) => setPassword(e.target.value)} />
          <span className="hint">{w.nextHint}</span>
        </div>
      </div>
      <div>
        <button type="submit" className="button" disabled={!now?.user?.email}>
          {w.setPassword}
        </button>
      </div>
    </form>
  );
}

function Passkeys({ list }: { list: Loaded<{ items: Passkey[] }> }) {
  const client = useClient();
  const can = session.use()?.passkey && hasPasskeys();
  const now = useNow();
  const add = async () => {
    try {
      const { ceremony, options } = await client.beginPasskey();
      await client.addPasskey({ ceremony, response: await make(options) });
      list.reload();
    } catch (e) {
      if (!declined(e)) toastFailure(e);
    }
  };
  const remove = (p: Passkey) => {
    if (confirm(w.removeSure(p.name))) client.removePasskey(p.id).then(list.reload, toastFailure);
  };
  return (
    <section className="card part">
      <h2>{w.passkeys}</h2>
      {list.loading && !list.data && <Loading rows={2} />}
      {list.failure && !list.data && <Failed failure={list.failure} retry={list.reload} />}
      {list.data?.items.length === 0 && <p className="muted">{can ? w.noPasskeys : w.passkeysAway}</p>}
      <ul className="rows">
        {list.data?.items.map((p) => (
          <li key={p.id}>
            <span className="grow">{shownLine(p.name)}</span>
            <span className="muted small">{p.usedAt ? w.used(since(p.usedAt, now)) : w.never}</span>
            <button type="button" className="button small danger" onClick={() => remove(p)}>
              {w.remove}
            </button>
          </li>
        ))}
      </ul>
      {can && (
        <div>
          <button type="button" className="button" onClick={() => void add()}>
            {w.addPasskey}
          </button>
        </div>
      )}
    </section>
  );
}

function Keys() {
  const client = useClient();
  const list = useLoad(client.keys, []);
  const now = useNow();
  const [name, setName] = useState("");
  const [days, setDays] = useState(0); // days until the key expires; 0 means never
  const [made, setMade] = useState("");
  const remove = (k: ApiKey) => {
    if (k.kind === "session" || confirm(w.deleteSure(k.name))) client.deleteKey(k.id).then(list.reload, toastFailure);
  };
  const create = async (e: FormEvent) => {
    e.preventDefault();
    try {
      setMade((await client.createKey(name, days)).key);
      setName("");
      list.reload();
    } catch (e) {
      toastFailure(e);
    }
  };
  return (
    <section className="card part">
      <h2>{w.keys}</h2>
      {list.loading && !list.data && <Loading rows={3} />}
      {list.failure && !list.data && <Failed failure={list.failure} retry={list.reload} />}
      <ul className="rows">
        {list.data?.items.map((k) => (
          <li key={k.id}>
            <span className="badge">{w.kinds[k.kind]}</span>
            <span className="grow ellipsis" title={shownLine(k.name)}>
              {shownLine(k.name)}
            </span>
            {k.current && <span className="badge" data-tone="blue">{w.this}</span>}
            <span className="muted small">{k.expiresAt ? w.ends(new Date(k.expiresAt).toLocaleDateString()) : w.made(since(k.createdAt, now))}</span>
            <button type="button" className="button small danger" onClick={() => remove(k)}>
              {k.kind === "session" ? w.end : w.delete}
            </button>
          </li>
        ))}
      </ul>
      {made && <Once text={made} words={w.keyOnce} close={() => setMade("")} />}
      <form className="line" onSubmit={(e) => void create(e)}>
        <input className="input" aria-label={w.keyName} placeholder={w.keyName} required maxLength={100} value={name} onChange={(e) => setName(e.target.value)} />
        <select className="input role" aria-label={w.goodFor} value={days} onChange={(e) => setDays(Number(e.target.value))}>
          {Object.entries(w.lives).map(([n, name]) => (
            <option key={n} value={n}>
              {name}
            </option>
          ))}
        </select>
        <button type="submit" className="button">
          {w.makeKey}
        </button>
      </form>
    </section>
  );
}
