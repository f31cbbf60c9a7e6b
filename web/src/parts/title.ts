import { useEffect } from "react";
import { statusOf, toneOf } from "./status";
import type { AgentSummary } from "../api/types";
import { words } from "../words";
import { shownLine } from "./clip";
import { Signal } from "../signal";

/** The title and icon of the tab. */
export type Tab = { name: string; icon: string };

const none: Tab = { name: "", icon: "/icon.svg" };
const tab = new Signal<Tab>(none);

/** tabOf returns an agent's name with a character for its status before it, and the icon of that status. */
export function tabOf(agent: AgentSummary): Tab {
  const status = statusOf(agent);
  const tone = toneOf[status];
  return { name: `${words.signs[status]} ${shownLine(agent.name ?? words.agents.untitled, 80)}`.trim(), icon: tone === "grey" ? none.icon : `/icon-${tone}.svg` };
}

/** titleOf returns the title of the tab: the number of pending requests, the page's name and the product. */
export const titleOf = (waiting: number, name: string): string => (waiting > 0 ? `(${waiting}) ` : "") + (name ? `${name} – ` : "") + words.product;

/** Shows an agent's name and status in the tab while its page is open. */
export function useTab(agent: AgentSummary | undefined): void {
  const { name, icon } = agent ? tabOf(agent) : none;
  useEffect(() => tab.set({ name, icon }), [name, icon]);
  useEffect(() => () => tab.set(none), []);
}

/** Writes the title and the icon of the tab. Only the frame of the page uses it. */
export function useTitle(waiting: number): void {
  const { name, icon } = tab.use();
  useEffect(() => {
    document.title = titleOf(waiting, name);
  }, [waiting, name]);
  useEffect(() => {
    const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    if (link && link.getAttribute("href") !== icon) link.href = icon;
  }, [icon]);
}
