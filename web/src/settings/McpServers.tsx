import { useEffect, useState, type FormEvent } from "react";
import type { McpServer, McpTest, NewMcpServer } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { Icon } from "../parts/Icon";
import { cameBack, goTo } from "../parts/provider";
import { Failed, Loading, Problem } from "../parts/State";
import { toast, toastFailure } from "../parts/toast";
import { useMay } from "../api/session";
import { words } from "../words";

const w = words.mcp;
const owners = ["personal", "team"] as const;
type Kind = keyof typeof w.kind;

/** The user's and the team's MCP servers: add, try, sign in, remove. Their secrets are never shown. */
export function McpServers() {
  const client = useClient();
  const admin = useMay("admin");
  const member = useMay("member");
  const { data, failure, loading, reload } = useLoad(() => client.mcpServers(), [], 15_000);
  const asked = new URLSearchParams(location.search).get("sign-in");
  useEffect(cameBack, []);
  return (
    <section className="card padded stack" id="mcp-servers">
      <h2>{w.title}</h2>
      <p className="small muted">{w.lead}</p>
      {loading && <Loading rows={3} />}
      {failure && !data && <Failed failure={failure} retry={reload} />}
      {data?.items.length === 0 && <p className="muted small">{w.none}</p>}
      <ul className="list">
        {data?.items.map((s) => (
          <Row key={s.id} server={s} may={member && (s.owner === "personal" || admin)} member={member} asked={s.id === asked} reload={reload} />
        ))}
      </ul>
      {member && <Add admin={admin} done={reload} />}
    </section>
  );
}

function Row({ server: s, may, member, asked, reload }: { server: McpServer; may: boolean; member: boolean; asked: boolean; reload: () => void }) {
  const client = useClient();
  const [test, setTest] = useState<McpTest | "busy" | null>(null);
  const remote = s.type !== "stdio";
  const drop = () => {
    if (confirm(w.sure(s.name))) client.removeMcpServer(s.id).then(reload, toastFailure);
  };
  const tryIt = () => {
    setTest("busy");
    client
      .testMcpServer(s.id)
      .then(setTest, (e: unknown) => {
        setTest(null);
        toastFailure(e);
      })
      .finally(reload); // the attempt may have found that a sign-in has expired
  };
  const signIn = () => client.beginMcpSignIn(s.id).then((r) => goTo(r.authorizationUrl)).catch(toastFailure);
  const done = test !== null && test !== "busy" ? test : null;
  const refused = done?.state === "needs_auth";
  const wants = s.signedIn ? refused : asked || refused || s.signInOver || s.auth !== undefined;
  return (
    <li className="stack mcp-server">
      <div className="line">
        <Icon name={remote ? "globe" : "terminal"} />
        <span className="grow mcp-name">
          <strong className="cut">{s.name}</strong>
          <code className="cut small muted">{s.url || [s.command, ...(s.args ?? [])].join(" ")}</code>
        </span>
        <span className="badge">{w.owner[s.owner]}</span>
        {(s.signedIn || s.signInOver) && (
          <span className="badge wide-only" data-tone={s.signInOver ? "amber" : "green"}>
            {s.signInOver ? w.signInOver : w.signedIn}
          </span>
        )}
        {may && (
          <button type="button" className="button quiet square small" aria-label={w.drop(s.name)} onClick={drop}>
            <Icon name="close" />
          </button>
        )}
      </div>
      {remote && member && (
        <div className="row">
          <button type="button" className="button small" aria-label={w.testOf(s.name)} disabled={test === "busy"} onClick={tryIt}>
            {test === "busy" ? w.testing : w.test}
          </button>
          {s.signedIn && (
            <button type="button" className="button small" aria-label={w.signOutOf(s.name)} onClick={() => client.endMcpSignIn(s.id).then(reload, toastFailure)}>
              {w.signOut}
            </button>
          )}
          {wants && (
            <button type="button" className={`button small${asked || refused || s.signInOver ? " first" : ""}`} aria-label={s.signInOver ? w.signInAgainTo(s.name) : w.signInTo(s.name)} onClick={() => void signIn()}>
              {s.signInOver ? w.signInAgain : w.signIn}
            </button>
          )}
          {asked && !s.signedIn && <span className="small muted">{w.asked(s.name)}</span>}
        </div>
      )}
      {done?.state === "ready" && (
        <div className="stack" role="status">
          <p className="small">{w.works(done.tools.length, done.tookMs)}</p>
          <ul className="mcp-tools small">
            {done.tools.map((t) => (
              <li key={t.name}>
                <code>{t.name}</code> <span className="muted">{t.description}</span>
              </li>
            ))}
          </ul>
        </div>
      )}
      {done?.error && <Problem tone={done.state === "needs_auth" ? "amber" : "red"}>{done.error.message}</Problem>}
    </li>
  );
}

const lines = (text: string) => text.split("\n").map((l) => l.trim()).filter(Boolean);

/** pairs parses lines with a name and a value. */
function pairs(text: string, between: string): Record<string, string> {
  const out: Record<string, string> = {};
  for (const line of lines(text)) {
    const at = line.indexOf(between);
    out[(at < 0 ? line : line.slice(0, at)).trim()] = at < 0 ? "" : line.slice(at + between.length).trim();
  }
  return out;
}

const blank = { name: "", url: "", command: "", headers: "", env: "", id: "", secret: "", scopes: "" };

function Add({ admin, done }: { admin: boolean; done: () => void }) {
  const client = useClient();
  const [form, setForm] = useState(blank);
  const [kind, setKind] = useState<Kind>("http");
  const [owner, setOwner] = useState<(typeof owners)[number]>("personal");
  const [problem, setProblem] = useState("");
  const set = (key: keyof typeof blank) => (e: { target: { value: string } }) => setForm({ ...form, [key]: e.target.value });
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setProblem("");
    const server: NewMcpServer = { name: form.name.trim(), owner };
    if (kind === "stdio") {
      const [command = "", ...args] = lines(form.command);
      Object.assign(server, { command, args, env: pairs(form.env, "=") });
    } else {
      Object.assign(server, { url: form.url.trim(), headers: pairs(form.headers, ":"), ...(kind === "sse" && { type: kind }) });
      if (form.id) Object.assign(server, { auth: { CLIENT_ID: form.id.trim(), ...(form.secret && { CLIENT_SECRET: form.secret }), ...(form.scopes && { scopes: form.scopes.split(/\s+/).filter(Boolean) }) } });
    }
    try {
      await client.addMcpServer(server);
      toast(w.added(server.name));
      setForm(blank);
      done();
    } catch (e) {
      setProblem(asFailure(e).message);
    }
  };
  const text = (key: keyof typeof blank, label: string, required = false, type = "text") => (
    <div className="field">
      <label htmlFor={`mcp-${key}`}>{label}</label>
      <input id={`mcp-${key}`} className="input mono" type={type} required={required} autoComplete="off" spellCheck={false} value={form[key]} onChange={set(key)} />
    </div>
  );
  const area = (key: keyof typeof blank, label: string, hint: string, required = false) => (
    <div className="field">
      <label htmlFor={`mcp-${key}`}>{label}</label>
      <textarea id={`mcp-${key}`} className="input mono" rows={2} required={required} autoComplete="off" spellCheck={false} placeholder={hint} value={form[key]} onChange={set(key)} />
    </div>
  );
  return (
    <form className="stack" onSubmit={(e) => void submit(e)}>
      <div className="form-grid">
        {text("name", w.name, true)}
        <div className="field">
          <label htmlFor="mcp-kind">{w.kindLabel}</label>
          <select id="mcp-kind" className="input" value={kind} onChange={(e) => setKind(e.target.value as Kind)}>
            {(Object.keys(w.kind) as Kind[]).map((k) => (
              <option key={k} value={k}>
                {w.kind[k]}
              </option>
            ))}
          </select>
        </div>
        {kind === "stdio" ? area("command", w.command, w.commandHint, true) : text("url", w.url, true, "url")}
        <div className="field">
          <label htmlFor="mcp-owner">{w.ownerLabel}</label>
          <select id="mcp-owner" className="input" value={owner} onChange={(e) => setOwner(e.target.value as (typeof owners)[number])}>
            {(admin ? owners : owners.slice(0, 1)).map((o) => (
              <option key={o} value={o}>
                {w.owner[o]}
              </option>
            ))}
          </select>
        </div>
        {kind === "stdio" ? area("env", w.env, w.envHint) : area("headers", w.headers, w.headersHint)}
      </div>
      {kind !== "stdio" && (
        <details>
          <summary className="small">{w.more}</summary>
          <div className="stack">
            <p className="small muted">{w.moreLead}</p>
            <div className="form-grid">
              {text("id", w.clientId)}
              {text("secret", w.clientSecret, false, "password")}
              {text("scopes", w.scopes)}
            </div>
          </div>
        </details>
      )}
      {problem && <Problem>{problem}</Problem>}
      <div className="row">
        <button type="submit" className="button" disabled={!form.name.trim()}>
          {w.add}
        </button>
      </div>
    </form>
  );
}
