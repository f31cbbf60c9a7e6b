import { useState } from "react";
import { link } from "../route";
import { words } from "../words";
import { Access } from "./Access";
import { Connections } from "./Connections";
import { Defaults } from "./Defaults";
import { ExternalId } from "./ExternalId";
import { NoticesSwitch } from "../notices/Switch";
import { McpServers } from "./McpServers";
import { Memories } from "./Memories";
import { Models } from "./Models";
import { Rules } from "./Rules";
import { RunMode } from "./RunMode";
import { Secrets } from "./Secrets";

const w = words.settings;
const themes = ["", "light", "dark"] as const;

/** The settings of the user and the team. */
export default function Settings() {
  return (
    <>
      <header className="top">
        <h1 className="grow">{words.nav.settings}</h1>
        <a className="button small" {...link({ page: "team" })}>
          {words.nav.team}
        </a>
        <a className="button small" {...link({ page: "account" })}>
          {words.nav.account}
        </a>
      </header>
      <div className="scroll">
        <div className="wide">
          <section className="card padded stack">
            <h2>{w.theme}</h2>
            <Theme />
            <NoticesSwitch />
          </section>
          <Connections />
          <Defaults />
          <Access />
          <Models />
          <RunMode />
          <Rules />
          <Memories />
          <Secrets />
          <McpServers />
          <ExternalId />
        </div>
      </div>
    </>
  );
}

function Theme() {
  const [theme, setTheme] = useState(() => localStorage.getItem("aloft.theme") ?? "");
  return (
    <div className="pick theme" role="group" aria-label={w.theme}>
      {themes.map((t) => (
        <button
          key={t} type="button" aria-pressed={theme === t}
          onClick={() => {
            setTheme(t);
            localStorage.setItem("aloft.theme", t);
            if (t) document.documentElement.dataset["theme"] = t;
            else delete document.documentElement.dataset["theme"];
          }}
        >
          {w.themes[t]}
        </button>
      ))}
    </div>
  );
}
