import { useEffect, useRef } from "react";
import { asking, refreshAgents, useAgents } from "../store/agents";
import { statusOf } from "../parts/status";
import type { Find } from "../api/types";
import { useClient } from "../api/use";
import type { Approval, Decision } from "../api/types";
import { give } from "../approvals/answer";
import { kindOf, oneLine, quick } from "../approvals/kind";
import { useApprovals } from "../approvals/store";
import { shownLine } from "../parts/clip";
import { Signal } from "../signal";
import { go } from "../route";
import { words } from "../words";

const w = words.notices;
const needsYou: Find = { status: "needs-you" }; // agents that ask, or have failed within a day
const place = "aloft.notices";

/** The state of notifications; "away" if the browser supports none for this address. */
export type Notices = "on" | "off" | "denied" | "away";

function standing(): Notices {
  if (typeof Notification === "undefined" || !window.isSecureContext) return "away";
  if (Notification.permission === "denied") return "denied";
  return Notification.permission === "granted" && localStorage.getItem(place) === "on" ? "on" : "off";
}

export const notices = new Signal<Notices>(typeof window === "undefined" ? "away" : standing());
if (typeof window !== "undefined") addEventListener("storage", () => notices.set(standing())); // another tab has turned them on or off

/** Turns notifications on or off. Call it in a click handler, since the browser may ask for permission. */
export async function setNotices(on: boolean): Promise<void> {
  if (on && Notification.permission === "default") await Notification.requestPermission();
  localStorage.setItem(place, on ? "on" : "off");
  notices.set(standing());
}

type Words = { title: string; body: string; tag: string; path: string; question?: Approval };
type Said = { question?: Approval; path: string; decision: string };

// The only script URL that the page may create. The worker receives clicks on the buttons of
// notifications, which only a worker can, and does nothing else.
const address = "/notices.js";
type Policies = { createPolicy: (name: string, rules: { createScriptURL: () => string }) => { createScriptURL: (s: string) => unknown } };

let script: unknown; // the address as the page's Trusted Types policy requires it; created once
let worker: Promise<ServiceWorkerRegistration | undefined> | undefined;

function register(): Promise<ServiceWorkerRegistration | undefined> {
  worker ??= (async () => {
    if (!("serviceWorker" in navigator)) return undefined;
    const types = (window as { trustedTypes?: Policies }).trustedTypes;
    script ??= types?.createPolicy("notices", { createScriptURL: () => address }).createScriptURL(address) ?? address;
    await navigator.serviceWorker.register(script as string);
    return navigator.serviceWorker.ready;
  })().catch(() => (worker = undefined)); // without it there are no buttons until the next attempt
  return worker;
}

const option = "option:"; // prefix of an option's id

const mostBody = 60; // characters that every system shows completely in a notification
const mostLabel = 20; // likewise, for a button

/** The buttons of a notification; browsers show two. A request that may not fit has none: a click opens it. */
function actionsOf(q: Approval): { action: string; title: string }[] {
  if (q.hidden) return []; // the person must answer the request where it is shown
  const few = quick(q)?.options ?? [];
  switch (kindOf(q)) {
    case "question":
      return few.length > 2 || few.some((o) => o.label.length > mostLabel) ? [] : few.map((o) => ({ action: option + o.id, title: o.label }));
    case "plan":
      return []; // no person has seen it completely
    default:
      if (!oneLine(q) || q.tool === "McpAuth" || shownLine(q.subject).length > mostBody) return [];
      return [
        { action: "allow_once", title: words.approval.once },
        { action: "deny", title: words.approval.deny },
      ];
  }
}

const bodyOf = (q: Approval): string => shownLine((q.questions?.length === 1 && q.questions[0]?.prompt) || q.subject, 300);

async function show({ title, body, tag, path, question }: Words): Promise<void> {
  const made = await register();
  const data = { path, question };
  const actions = question && actionsOf(question);
  if (made) return made.showNotification(title, { body, tag, data, icon: "/icon.svg", ...(actions ? { actions, requireInteraction: true } : {}) } as NotificationOptions);
  const plain = new Notification(title, { body, tag });
  plain.onclick = () => {
    window.focus();
    history.pushState(null, "", path);
    dispatchEvent(new PopStateEvent("popstate"));
  };
}

/** Removes notifications of requests that were answered elsewhere. */
async function drop(tags: ReadonlySet<string>): Promise<void> {
  const made = await worker;
  for (const one of (await made?.getNotifications()) ?? []) if (tags.has(one.tag)) one.close();
}

/** useNotices notifies of agents that need a person while this page is not visible. */
export function useNotices(): void {
  const client = useClient();
  const on = notices.use() === "on";
  const approvals = useApprovals(client);
  const needing = useAgents(client, on ? needsYou : asking);
  const known = useRef<Set<string>>(undefined);

  useEffect(() => {
    if (on) void register();
  }, [on]);

  useEffect(() => {
    if (!("serviceWorker" in navigator)) return;
    const heard = (e: MessageEvent<Said>) => {
      const { question, path, decision } = e.data;
      if (question && (decision === "allow_once" || decision === "deny")) void give(client, question, decision satisfies Decision);
      else if (question && decision.startsWith(option)) {
        const one = quick(question);
        if (one) void give(client, question, "answer", { answers: [{ questionId: one.questionId, optionIds: [decision.slice(option.length)] }] });
      } else {
        const id = decodeURIComponent(path.split("/")[2] ?? "");
        go({ page: "agent", id, tab: "conversation" });
      }
    };
    navigator.serviceWorker.addEventListener("message", heard);
    return () => navigator.serviceWorker.removeEventListener("message", heard);
  }, [client]); // the worker picks any tab

  useEffect(() => {
    if (approvals.loading || needing.loading) return;
    const names = new Map(needing.items.map((a) => [a.id, a.name ?? words.agents.untitled]));
    const questions = approvals.items.filter((q) => names.has(q.agentId));
    if (questions.length < approvals.items.length) refreshAgents(); // the next refresh tells which agent asks
    const now: Words[] = [
      ...questions.map((q) => ({ title: w.asks[kindOf(q)](names.get(q.agentId) ?? "", q.tool), body: bodyOf(q), tag: q.id, path: `/agents/${q.agentId}`, question: q })),
      ...needing.items.filter((a) => ["failed", "expired"].includes(statusOf(a))).map((a) => ({ title: (statusOf(a) === "failed" ? w.failed : w.expired)(a.name ?? words.agents.untitled), body: a.doing ?? "", tag: a.latestRunId ?? a.id, path: `/agents/${a.id}` })),
    ];
    const before = known.current;
    known.current = new Set(now.map((n) => n.tag));
    if (!before || !on) return; // the page itself shows what was waiting when it was opened
    void drop(new Set([...before].filter((tag) => !known.current?.has(tag))));
    if (document.hasFocus()) return;
    for (const one of now) if (!before.has(one.tag)) void show(one);
  }, [approvals, needing, on]);
}
