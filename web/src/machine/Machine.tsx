import { lazy, Suspense, useState, type FormEvent } from "react";
import type { Agent } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { shownLine } from "../parts/clip";
import { Copy } from "../parts/Copy";
import { Icon } from "../parts/Icon";
import { Loading, Problem } from "../parts/State";
import { words } from "../words";
import { AgentRules } from "./AgentRules";
import { Artifacts } from "./Artifacts";
import { Inside } from "./Inside";
import { McpServers } from "./McpServers";

const Terminal = lazy(() => import("./Terminal"));
const Desktop = lazy(() => import("./Desktop"));
const w = words.machine;

type View = "terminals" | "desktop";
const inAddress = (): View => (new URLSearchParams(location.search).has("desktop") ? "desktop" : "terminals");

/** An agent's machine: its terminals, desktop and ports, and the commands for connecting to it. */
export default function Machine({ agent }: { agent: Agent }) {
  const [shown, show] = useState(inAddress);
  const choose = (view: View) => {
    show(view);
    const url = new URL(location.href);
    view === "desktop" ? url.searchParams.set("desktop", "") : url.searchParams.delete("desktop");
    history.replaceState(history.state, "", url); // so that the tab is still open after a reload
  };
  return (
    <div className="machine">
      <section className="machine-terminals" aria-label={shown === "desktop" ? words.desktop.title : w.terminals}>
        <div className="machine-views">
          <div className="pick" role="group" aria-label={w.views}>
            {(["terminals", "desktop"] as const).map((view) => (
              <button key={view} type="button" aria-pressed={view === shown} onClick={() => choose(view)}>
                {view === "desktop" ? words.desktop.title : w.terminals}
              </button>
            ))}
          </div>
        </div>
        <Inside agent={agent}>
          {() =>
            shown === "desktop" ? (
              <Suspense fallback={<Loading />}>
                <Desktop id={agent.id} />
              </Suspense>
            ) : (
              <Terminals id={agent.id} />
            )
          }
        </Inside>
      </section>
      <aside className="machine-ways">
        <Artifacts id={agent.id} />
        <Ports id={agent.id} named={agent.ports ?? []} ready={agent.machine === "ready"} />
        <McpServers id={agent.id} />
        <AgentRules id={agent.id} />
        <section className="stack">
          <h2>{w.openIn}</h2>
          <p className="small muted">{w.openInLead}</p>
          <div className="row ways-in">
            {w.links(agent.id).map(([name, href]) => (
              <a key={name} className="button small" href={href}>
                {name}
              </a>
            ))}
          </div>
        </section>
        <section className="stack">
          <h2>{w.ways}</h2>
          <p className="small muted">{w.waysLead}</p>
          {w.commands(agent.id).map(([name, command]) => (
            <div key={name} className="field">
              <span className="label">{name}</span>
              <div className="way">
                <code className="cut">{command}</code>
                <Copy text={command} label={w.copyOf(name)} />
              </div>
            </div>
          ))}
        </section>
      </aside>
    </div>
  );
}

/** The terminals of a machine that is running or starting. */
function Terminals({ id }: { id: string }) {
  const client = useClient();
  const [chosen, choose] = useState("main");
  const { data } = useLoad(() => client.terminals(id), [id], 10_000);
  const names = [...new Set(["main", ...(data?.items ?? []).map((t) => t.name), chosen])];
  const add = () => {
    for (let n = 1; ; n++) if (!names.includes(`shell-${n}`)) return choose(`shell-${n}`);
  };
  return (
    <>
      <div className="agents-tools">
        <div className="pick" role="group" aria-label={w.terminals}>
          {names.map((name) => (
            <button key={name} type="button" aria-pressed={name === chosen} onClick={() => choose(name)}>
              {name}
            </button>
          ))}
        </div>
        <button type="button" className="button quiet square small" aria-label={w.newTerminal} onClick={add}>
          <Icon name="plus" />
        </button>
        <span className="grow" />
        <span className="small faint">{w.leave}</span>
      </div>
      <Suspense fallback={<Loading />}>
        <Terminal key={chosen} id={id} name={chosen} />
      </Suspense>
    </>
  );
}

/**
 * Opens a server that listens on a port in the machine: one that its environment names,
 * that a program listens on now, or any other. A sleeping machine is not woken for the list.
 */
function Ports({ id, named, ready }: { id: string; named: NonNullable<Agent["ports"]>; ready: boolean }) {
  const client = useClient();
  const found = useLoad(() => (ready ? client.ports(id) : Promise.resolve({ items: [] })), [id, ready], 5_000).data?.items;
  const rows = [
    ...named.map((p) => ({ port: p.port, name: p.name, silent: ready && found?.every((f) => f.port !== p.port) })),
    ...(found ?? []).filter((f) => !named.some((p) => p.port === f.port)).map((f) => ({ port: f.port, name: f.program, silent: false })),
  ];
  const [port, setPort] = useState("");
  const [problem, setProblem] = useState("");
  const [last, setLast] = useState("");
  const show = async (port: number) => {
    setProblem("");
    setLast("");
    try {
      const { signInUrl } = await client.preview(id, port);
      // The URL works only once: if the browser blocks the window, show it as a
      // link.
      if (!open(signInUrl, "_blank", "noopener,noreferrer")) setLast(signInUrl);
    } catch (e) {
      setProblem(asFailure(e).message);
    }
  };
  const submit = (e: FormEvent) => {
    e.preventDefault();
    void show(Number(port));
  };
  return (
    <section className="stack">
      <h2>{w.ports}</h2>
      <p className="small muted">{w.portsLead}</p>
      {rows.map((p) => (
        <button key={p.port} type="button" className="way named" title={w.openNamed} onClick={() => void show(p.port)}>
          <span className="cut">{shownLine(p.name || w.port)}</span>
          {p.silent && <span className="small faint">{w.silent}</span>}
          <span className="grow" />
          <code>{p.port}</code>
        </button>
      ))}
      <form className="row" onSubmit={submit}>
        <input className="input" inputMode="numeric" pattern="[0-9]+" required aria-label={w.port} placeholder="3000" value={port} onChange={(e) => setPort(e.target.value)} />
        <button type="submit" className="button">
          {w.openPort}
        </button>
      </form>
      {problem && <Problem>{problem}</Problem>}
      {last && (
        <a className="link" href={last} target="_blank" rel="noopener noreferrer">
          {w.follow}
        </a>
      )}
    </section>
  );
}
