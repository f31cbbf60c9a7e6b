import type { MouseEvent } from "react";
import { Signal } from "./signal";

/** A place in the dashboard, as named by its URL. */
export type Place =
  | { page: "agents" }
  | { page: "agent"; id: string; tab: Tab }
  | { page: "approvals" }
  | { page: "automations"; id?: string }
  | { page: "environments"; id?: string; part?: Part }
  | { page: "setup"; id?: string }
  | { page: "settings" }
  | { page: "account" }
  | { page: "team" }
  | { page: "unknown" };

export const tabs = ["conversation", "changes", "files", "machine"] as const;
export type Tab = (typeof tabs)[number];

export const parts = ["file", "builds", "snapshots", "secrets", "history"] as const;
export type Part = (typeof parts)[number];

/** placeOf parses a URL path. */
export function placeOf(path: string): Place {
  const [first = "", second, third] = path.split("/").filter(Boolean).map(decode);
  switch (first) {
    case "":
      return { page: "agents" };
    case "agents":
      if (second === undefined) return { page: "agents" };
      if (third === undefined) return { page: "agent", id: second, tab: "conversation" };
      return (tabs as readonly string[]).includes(third) ? { page: "agent", id: second, tab: third as Tab } : { page: "unknown" };
    case "approvals":
      return { page: "approvals" };
    case "automations":
      if (third !== undefined) return { page: "unknown" };
      return second === undefined ? { page: "automations" } : { page: "automations", id: second };
    case "environments":
      if (second === undefined) return { page: "environments" };
      if (second === "setup") return third === undefined ? { page: "setup" } : { page: "setup", id: third };
      if (third === undefined) return { page: "environments", id: second, part: "file" };
      return (parts as readonly string[]).includes(third) ? { page: "environments", id: second, part: third as Part } : { page: "unknown" };
    case "settings":
    case "account":
    case "team":
      return { page: first };
  }
  return { page: "unknown" };
}

/** pathOf is the inverse of placeOf. */
export function pathOf(place: Place): string {
  switch (place.page) {
    case "agent":
      return `/agents/${encodeURIComponent(place.id)}${place.tab === "conversation" ? "" : `/${place.tab}`}`;
    case "automations":
      return place.id === undefined ? "/automations" : `/automations/${encodeURIComponent(place.id)}`;
    case "environments":
      if (place.id === undefined) return "/environments";
      return `/environments/${encodeURIComponent(place.id)}${!place.part || place.part === "file" ? "" : `/${place.part}`}`;
    case "setup":
      return `/environments/setup${place.id === undefined ? "" : `/${encodeURIComponent(place.id)}`}`;
    case "unknown":
      return "/";
    default:
      return `/${place.page}`;
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const path = new Signal(typeof location === "undefined" ? "/" : location.pathname);
if (typeof window !== "undefined") addEventListener("popstate", () => path.set(location.pathname));

export function go(place: Place): void {
  const to = pathOf(place);
  if (to === location.pathname) return;
  history.pushState(null, "", to);
  path.set(to);
}

export const usePlace = (): Place => placeOf(path.use());

/** link makes an anchor navigate within the page, and still work as a normal link. */
export function link(place: Place) {
  return {
    href: pathOf(place),
    onClick: (e: MouseEvent) => {
      if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
      e.preventDefault();
      go(place);
    },
  };
}
