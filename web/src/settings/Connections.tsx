import { useId, useState, type FormEvent } from "react";
import type { Client } from "../api/client";
import type { ConnectGitServer, ConnectModel, Server } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { Icon } from "../parts/Icon";
import { Failed, Loading, Problem } from "../parts/State";
import { toast, toastFailure } from "../parts/toast";
import { useMay } from "../api/session";
import { words } from "../words";

const w = words.connections;
const providers = ["anthropic", "openai", "google", "local"] as const;
type Provider = (typeof providers)[number];
const suggested: Record<Provider, string> = { anthropic: "claude-sonnet-4-5", openai: "gpt-5", google: "gemini-2.5-pro", local: "" };
const forges = ["github", "gitlab", "gitea", "none"] as const;
const hosts: Partial<Record<(typeof forges)[number], string>> = { github: "github.com", gitlab: "gitlab.com" };

/** idOf makes an id from the provider's name of a model, which may have a path. */
export function idOf(name: string): string {
  return name.trim().split("/").at(-1)!.replace(/[[\]\s]/g, "-");
}

/** hostOf returns the host of the input: a host, or the address of a server or a repository. */
export function hostOf(text: string): { host: string; scheme: "https" | "http" } {
  const [, scheme, host = ""] = /^(?:(https?):\/\/)?(?:[^@/]*@)?([^/]*)/i.exec(text.trim()) ?? [];
  return { host: host.toLowerCase(), scheme: scheme?.toLowerCase() === "http" ? "http" : "https" };
}

/** until asks the server until it has restarted its parts and the condition holds. */
async function until(client: Client, holds: (s: Server) => boolean): Promise<void> {
  for (let i = 0; i < 20; i++) {
    try {
      if (holds(await client.server())) return;
    } catch {
      // The server is restarting.
    }
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

/** The server's models and git servers: show, connect, disconnect. Keys are never shown. */
export function Connections() {
  const client = useClient();
  const admin = useMay("admin");
  const { data, failure, loading, reload } = useLoad(client.server, []);
  const [adding, add] = useState<"model" | "git" | "">("");
  if (!admin) return null;
  const done = () => {
    add("");
    reload();
  };
  const drop = (name: string, what: Promise<unknown>, gone: (s: Server) => boolean) => {
    what.then(() => until(client, gone)).then(() => toast(w.dropped(name)), toastFailure).finally(reload);
  };
  return (
    <section className="card padded stack" id="connections">
      <h2>{w.title}</h2>
      <p className="small muted">{w.lead}</p>
      {loading && !data && <Loading rows={2} />}
      {failure && !data && <Failed failure={failure} retry={reload} />}
      {data?.ignored.map((text) => <Problem key={text} tone="amber">{w.ignored(text)}</Problem>)}
      <ul className="list">
        {data?.models.map((m) => (
          <Row key={m.id} icon="think" name={m.id} detail={m.baseUrl ?? w.providers[m.provider as Provider] ?? m.provider} source={m.source}
            drop={() => drop(m.id, client.disconnectModel(m.id), (s) => !s.models.some((x) => x.id === m.id))} />
        ))}
        {data?.gitServers.map((g) => (
          <Row key={g.url} icon="branch" name={g.host} detail={g.url} source={g.source}
            drop={() => drop(g.host, client.disconnectGitServer(g.host), (s) => !s.gitServers.some((x) => x.host === g.host))} />
        ))}
      </ul>
      {data && adding === "" && (
        <div className="row">
          <button type="button" className="button" onClick={() => add("model")}>{w.addModel}</button>
          <button type="button" className="button" onClick={() => add("git")}>{w.addGit}</button>
        </div>
      )}
      {data && adding === "model" && <ModelForm local={data.localModel} done={done} cancel={() => add("")} />}
      {data && adding === "git" && <GitForm done={done} cancel={() => add("")} />}
    </section>
  );
}

type RowProps = { icon: "think" | "branch"; name: string; detail: string; source: "configuration" | "connected"; drop: () => void };

function Row({ icon, name, detail, source, drop }: RowProps) {
  return (
    <li className="line">
      <Icon name={icon} />
      <span className="grow mcp-name">
        <strong className="cut">{name}</strong>
        <span className="cut small muted">{detail}</span>
      </span>
      <span className="badge wide-only">{w.source[source]}</span>
      {source === "connected" && (
        <button type="button" className="button quiet square small" aria-label={w.drop(name)} onClick={() => confirm(w.sure(name)) && drop()}>
          <Icon name="close" />
        </button>
      )}
    </li>
  );
}

type FormProps = { done: () => void; cancel?: () => void; cancelText?: string };

/** Tries a model and connects it. */
export function ModelForm({ local, done, cancel }: FormProps & { local: Server["localModel"] }) {
  const client = useClient();
  const id = useId();
  const [provider, setProvider] = useState<Provider>(local ? "local" : "anthropic");
  const [name, setName] = useState(local?.name ?? suggested.anthropic);
  const [address, setAddress] = useState(local?.baseUrl ?? "");
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const choose = (p: Provider) => {
    setProvider(p);
    setName(p === "local" ? (local?.name ?? "") : suggested[p]);
    setAddress(p === "local" ? (local?.baseUrl ?? "http://127.0.0.1:11434/v1") : "");
  };
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    if (busy) return;
    setBusy(true);
    setProblem("");
    const body: ConnectModel = { provider: provider === "local" ? "openai" : provider, name: name.trim() };
    if (address.trim()) body.baseUrl = address.trim();
    if (key.trim()) body.apiKey = key.trim();
    try {
      const { id } = await client.connectModel(idOf(name), body);
      await until(client, (s) => s.models.some((m) => m.id === id));
      toast(w.connected(id));
      done();
    } catch (e) {
      setProblem(asFailure(e).message);
      setBusy(false);
    }
  };
  return (
    <form className="stack" onSubmit={(e) => void submit(e)}>
      <div className="form-grid">
        <div className="field">
          <label htmlFor={`${id}-provider`}>{w.provider}</label>
          <select id={`${id}-provider`} className="input" value={provider} onChange={(e) => choose(e.target.value as Provider)}>
            {providers.map((p) => <option key={p} value={p}>{w.providers[p]}</option>)}
          </select>
        </div>
        <div className="field">
          <label htmlFor={`${id}-name`}>{w.model}</label>
          <input id={`${id}-name`} className="input" required autoComplete="off" spellCheck={false} value={name} onChange={(e) => setName(e.target.value)} />
        </div>
        {provider === "local" && (
          <div className="field">
            <label htmlFor={`${id}-address`}>{w.address}</label>
            <input id={`${id}-address`} className="input" type="url" required autoComplete="off" spellCheck={false} value={address} onChange={(e) => setAddress(e.target.value)} />
          </div>
        )}
        <div className="field">
          <label htmlFor={`${id}-key`}>{provider === "local" ? w.keyOptional : w.key}</label>
          <input id={`${id}-key`} className="input" type="password" required={provider !== "local"} autoComplete="off" value={key} onChange={(e) => setKey(e.target.value)} />
        </div>
      </div>
      {problem && <Problem>{problem}</Problem>}
      <Buttons busy={busy} go={w.tryModel} going={w.tryingModel} cancel={cancel} />
    </form>
  );
}

/** Checks a token of a git server and connects it. */
export function GitForm({ done, cancel, cancelText }: FormProps) {
  const client = useClient();
  const id = useId();
  const [forge, setForge] = useState<(typeof forges)[number]>("github");
  const [address, setAddress] = useState("github.com");
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    if (busy) return;
    setBusy(true);
    setProblem("");
    const { host, scheme } = hostOf(address);
    const body: ConnectGitServer = { scheme, forge, token: token.trim() };
    try {
      const { id: connected, login, lacks } = await client.connectGitServer(host, body);
      await until(client, (s) => s.gitServers.some((g) => g.host === connected));
      toast(lacks.length > 0 ? w.lacks(lacks.join(", ")) : w.connected(login ? w.as(host, login) : host), lacks.length > 0);
      done();
    } catch (e) {
      setProblem(asFailure(e).message);
      setBusy(false);
    }
  };
  return (
    <form className="stack" onSubmit={(e) => void submit(e)}>
      <div className="form-grid">
        <div className="field">
          <label htmlFor={`${id}-forge`}>{w.forge}</label>
          <select
            id={`${id}-forge`} className="input" value={forge}
            onChange={(e) => {
              const f = e.target.value as typeof forge;
              setForge(f);
              setAddress(hosts[f] ?? "");
            }}
          >
            {forges.map((f) => <option key={f} value={f}>{w.forges[f]}</option>)}
          </select>
        </div>
        <div className="field">
          <label htmlFor={`${id}-host`}>{w.host}</label>
          <input id={`${id}-host`} className="input" required autoComplete="off" spellCheck={false} value={address} placeholder="git.example.com" onChange={(e) => setAddress(e.target.value)} />
        </div>
        <div className="field">
          <label htmlFor={`${id}-token`}>{w.token}</label>
          <input id={`${id}-token`} className="input" type="password" required autoComplete="off" value={token} aria-describedby={`${id}-token-hint`} onChange={(e) => setToken(e.target.value)} />
          <span className="hint" id={`${id}-token-hint`}>{w.tokenHint[forge]}</span>
        </div>
      </div>
      {problem && <Problem>{problem}</Problem>}
      <Buttons busy={busy} go={w.checkToken} going={w.checkingToken} cancel={cancel} cancelText={cancelText} />
    </form>
  );
}

type ButtonsProps = { busy: boolean; go: string; going: string; cancel: (() => void) | undefined; cancelText?: string | undefined };

function Buttons({ busy, go, going, cancel, cancelText = w.cancel }: ButtonsProps) {
  return (
    <div className="row">
      <button type="submit" className="button first" disabled={busy}>{busy ? going : go}</button>
      {cancel && <button type="button" className="button" onClick={cancel}>{cancelText}</button>}
    </div>
  );
}
