import { StrictMode, useSyncExternalStore } from "react";
import { createRoot } from "react-dom/client";
import { forgetAgents } from "./agents/store";
import { Client } from "./api/client";
import { network, type Transport } from "./api/transport";
import { ClientContext } from "./api/use";
import { session } from "./session";
import { Shell } from "./Shell";
import { SignIn } from "./SignIn";
import "./style/base.css";
import "./style/parts.css";
import "./style/shell.css";
import "./style/agents.css";

const demo = import.meta.env.MODE === "demo";

function App({ client }: { client: Client }) {
  const signedIn = useSyncExternalStore(session.subscribe, session.key) !== "";
  if (!signedIn) return <SignIn />;
  return (
    <ClientContext value={client}>
      <Shell />
    </ClientContext>
  );
}

async function start(): Promise<void> {
  let transport: Transport = network;
  if (demo) {
    transport = (await import("./demo/transport")).demonstration;
    if (location.pathname !== "/sign-in") session.signIn("demo");
  }
  session.subscribe(forgetAgents);
  const theme = localStorage.getItem("aloft.theme");
  if (theme) document.documentElement.dataset["theme"] = theme;
  const root = document.getElementById("app");
  if (root) createRoot(root).render(<StrictMode><App client={new Client(transport)} /></StrictMode>);
}

void start();
