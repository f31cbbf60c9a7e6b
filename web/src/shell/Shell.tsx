import { Component, lazy, Suspense, useEffect, useRef, type ReactNode } from "react";
import { AgentList } from "../agents/List";
import { openSpawn, spawning } from "../agents/spawn";
import { useApprovals } from "../approvals/store";
import { foreseeAgents } from "../store/agents";
import type { Client } from "../api/client";
import { useClient } from "../api/use";
import { keyName, useKey } from "../keys";
import { KeySheet, keySheetOpen } from "../help/Keys";
import { useNotices } from "../notices/notices";
import { Icon, type IconName } from "../parts/Icon";
import { Empty, Loading, OfflineBar } from "../parts/State";
import { Toasts } from "../parts/toast";
import { useTitle } from "../parts/title";
import { Palette, paletteOpen } from "../palette/Palette";
import { link, usePlace, type Place } from "../route";
import { ended } from "../api/session";
import { words } from "../words";

const spawnDialog = () => import("../agents/Spawn");
const Spawn = lazy(spawnDialog);
const soon = 2_000; // milliseconds after which the code of dialogs that a key opens is fetched
const agentPage = () => import("../agent/Page");
const AgentPage = lazy(agentPage);
const Account = lazy(() => import("../account/Account"));
const Team = lazy(() => import("../team/Team"));
const Automations = lazy(() => import("../automations/Automations"));
const Automation = lazy(() => import("../automations/Automation"));
const Environments = lazy(() => import("../environments/Environments"));
const Environment = lazy(() => import("../environments/Environment"));
const BeginSetUp = lazy(() => import("../environments/BeginSetUp"));
const SetUp = lazy(() => import("../environments/SetUp"));
const Settings = lazy(() => import("../settings/Settings"));
const Approvals = lazy(() => import("./Approvals"));

/** Prefetches the code and the data of a page, before it is known who has signed in. */
export function foresee(client: Client, place: Place): void {
  if (place.page === "agents") foreseeAgents(client);
  if (place.page !== "agent") return;
  agentPage().catch(() => undefined); // the page itself reports errors
  client.foresee(place.id);
}

export function Brand() {
  return (
    <span className="brand">
      <img src="/icon.svg" alt="" />
      {words.product}
    </span>
  );
}

function Item({ place, icon, current, children, count = 0, wide = false }: { place: Place; icon: IconName; current: boolean; children: ReactNode; count?: number; wide?: boolean }) {
  return (
    <a className={wide ? "item wide-only" : "item"} {...link(place)} aria-current={current ? "page" : undefined}>
      <Icon name={icon} />
      {children}
      {count > 0 && <span className="count">{count}</span>}
    </a>
  );
}

/** The frame of the dashboard, and the screen that the address names. */
export function Shell() {
  const place = usePlace();
  const client = useClient();
  const open = spawning.use();
  const waiting = useApprovals(client).items.length;
  const main = useRef<HTMLElement>(null);
  useKey("mod+e", openSpawn);
  useNotices();
  useEffect(() => {
    const timer = setTimeout(() => spawnDialog().catch(() => undefined), soon); // the dialog itself reports errors
    return () => clearTimeout(timer);
  }, []);
  useTitle(waiting);
  return (
    <>
      <button type="button" className="button skip" onClick={() => main.current?.focus()}>
        {words.nav.skip}
      </button>
      <div className="frame">
        <nav aria-label={words.nav.label}>
          <Brand />
          <button type="button" className="button first spawn" onClick={openSpawn}>
            <Icon name="plus" />
            <span>{words.agents.spawn}</span>
            <kbd aria-hidden="true">{keyName("mod+e")}</kbd>
          </button>
          <Item place={{ page: "agents" }} icon="agents" current={place.page === "agents" || place.page === "agent"}>
            {words.nav.agents}
          </Item>
          <Item place={{ page: "approvals" }} icon="approvals" current={place.page === "approvals"} count={waiting}>
            {words.nav.approvals}
          </Item>
          <Item place={{ page: "automations" }} icon="clock" current={place.page === "automations"}>
            {words.nav.automations}
          </Item>
          <Item place={{ page: "environments" }} icon="environments" current={place.page === "environments" || place.page === "setup"}>
            {words.nav.environments}
          </Item>
          <Item place={{ page: "settings" }} icon="settings" current={place.page === "settings"}>
            {words.nav.settings}
          </Item>
          <div className="foot">
            <button type="button" className="item wide-only" onClick={() => paletteOpen.set(true)}>
              <Icon name="search" />
              {words.nav.menu}
              <kbd aria-hidden="true">{keyName("mod+k")}</kbd>
            </button>
            <button type="button" className="item wide-only" onClick={() => keySheetOpen.set(true)}>
              <Icon name="keyboard" />
              {words.nav.keys}
              <kbd aria-hidden="true">?</kbd>
            </button>
            <Item wide place={{ page: "team" }} icon="team" current={place.page === "team"}>
              {words.nav.team}
            </Item>
            <Item wide place={{ page: "account" }} icon="key" current={place.page === "account"}>
              {words.nav.account}
            </Item>
            <button type="button" className="item wide-only" onClick={() => void client.signOut().finally(ended)}>
              <Icon name="out" />
              {words.signIn.out}
            </button>
          </div>
        </nav>
        <div className="screen">
          <OfflineBar />
          <main ref={main} tabIndex={-1}>
            <Caught key={place.page + ("id" in place ? place.id : "")}>
              <Suspense fallback={<Loading />}>
                <Screen place={place} />
              </Suspense>
            </Caught>
          </main>
        </div>
      </div>
      {open && (
        <Caught>
          <Suspense>
            <Spawn />
          </Suspense>
        </Caught>
      )}
      <Palette />
      <KeySheet />
      <Toasts />
    </>
  );
}

function Screen({ place }: { place: Place }) {
  switch (place.page) {
    case "agents":
      return <AgentList />;
    case "account":
      return <Account />;
    case "team":
      return <Team />;
    case "agent":
      return <AgentPage key={place.id} id={place.id} tab={place.tab} />;
    case "approvals":
      return <Approvals />;
    case "automations":
      return place.id === undefined ? <Automations /> : <Automation key={place.id} id={place.id} />;
    case "environments":
      return place.id === undefined ? <Environments /> : <Environment key={place.id} id={place.id} part={place.part ?? "file"} />;
    case "setup":
      return place.id === undefined ? <BeginSetUp /> : <SetUp key={place.id} id={place.id} />;
    case "settings":
      return <Settings />;
    default:
      return (
        <Empty icon="search" title={words.state.notFound} top>
          <a className="button" {...link({ page: "agents" })}>
            {words.state.toAgents}
          </a>
        </Empty>
      );
  }
}

/** Shows an error page if a screen has crashed. */
class Caught extends Component<{ children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };
  static getDerivedStateFromError() {
    return { failed: true };
  }
  override render() {
    if (!this.state.failed) return this.props.children;
    return (
      <Empty icon="warn" title={words.state.crashed} top>
        <button type="button" className="button" onClick={() => location.reload()}>
          {words.state.reload}
        </button>
      </Empty>
    );
  }
}
