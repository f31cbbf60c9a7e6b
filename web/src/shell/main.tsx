import { lazy, StrictMode, Suspense } from "react";
import { createRoot } from "react-dom/client";
import { forgetAgents } from "../store/agents";
import { Client } from "../api/client";
import { network, type Transport } from "../api/transport";
import { asFailure, ClientContext, offline } from "../api/use";
import { Loading, OfflineBar } from "../parts/State";
import { placeOf } from "../route";
import { session } from "../api/session";
import { foresee, Shell } from "./Shell";
import "../style/base.css";
import "../style/parts.css";
import "../style/shell.css";
import "../style/agents.css";
import "../style/team.css";
import "../style/environments.css";
import "../style/agent.css";
import "../style/changes.css";
import "../style/machine.css";
import "../style/lists.css";

const wasIn = "aloft.was-in";
const signIn = () => import("./SignIn");
const SignIn = lazy(signIn);
const demo = import.meta.env.MODE === "demo";

function App({ client }: { client: Client }) {
  const now = session.use();
  return <ClientContext value={client}>{now === undefined ? <Starting /> : now.signedIn ? <Shell /> : <Suspense fallback={<Starting />}><SignIn /></Suspense>}</ClientContext>;
}

function Starting() {
  return (
    <>
      <OfflineBar />
      <Loading />
    </>
  );
}

async function start(): Promise<void> {
  let transport: Transport = network;
  if (demo) {
    transport = (await import("../demo/transport")).demonstration;
  }
  const client = new Client(transport);
  session.subscribe(() => {
    const { signedIn } = session.get() ?? {};
    if (!signedIn) {
      forgetAgents();
      client.forget();
    }
    localStorage.setItem(wasIn, signedIn ? "yes" : "");
  });
  if (localStorage.getItem(wasIn)) foresee(client, placeOf(location.pathname)); // in parallel with the request for the signed-in user
  else signIn().catch(() => undefined); // the page itself reports errors
  const theme = localStorage.getItem("aloft.theme");
  if (theme) document.documentElement.dataset["theme"] = theme;
  const root = document.getElementById("app");
  if (root) createRoot(root).render(<StrictMode><App client={client} /></StrictMode>);
  await askWho(client);
}

/** Asks the server who is signed in, until it answers. */
async function askWho(client: Client): Promise<void> {
  for (;;) {
    try {
      return session.set(await client.session());
    } catch (e) {
      offline.set(asFailure(e).offline);
      await new Promise((r) => setTimeout(r, 2_000));
    }
  }
}

void start();
