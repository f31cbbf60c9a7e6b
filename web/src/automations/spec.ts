import type { AutomationSpec } from "../api/types";
import { words } from "../words";

const w = words.automations;

export const tones = { draft: "grey", active: "green", paused: "amber" } as const;

export const startTones = { backlog: "grey", queued: "blue", starting: "blue", running: "blue", succeeded: "green", failed: "red", skipped: "grey", cancelled: "grey" } as const;

/** when says what starts an automation. */
export function when(spec: AutomationSpec): string {
  const schedule = spec.on?.schedule;
  if (schedule) return w.onSchedule(schedule.cron, schedule.timeZone ?? "UTC");
  return spec.on?.event ? w.onEvent : w.byHand;
}

/** The fields of the form; more has all other fields of the spec as JSON. */
export type Form = {
  name: string;
  repository: string;
  prompt: string;
  trigger: "hand" | "schedule" | "event";
  cron: string;
  zone: string;
  missed: "skip" | "catch-up";
  filter: string;
  concurrency: "skip" | "queue" | "replace";
  pull: boolean;
  more: string;
};

/** formOf returns the form for a spec, or for a new one. */
export function formOf(spec?: AutomationSpec): Form {
  const { name = "", repository = "", prompt = "", on, concurrency = "skip", pullRequest = false, ...rest } = spec ?? ({} as Partial<AutomationSpec>);
  const s = on?.schedule;
  return {
    name, repository, prompt, concurrency, pull: pullRequest,
    trigger: s ? "schedule" : on?.event ? "event" : "hand",
    cron: s?.cron ?? "0 3 * * 1-5",
    zone: s?.timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    missed: s?.missed ?? "skip",
    filter: on?.event?.filter ?? "",
    more: Object.keys(rest).length ? JSON.stringify(rest, null, 2) : "",
  };
}

/** specOf is the inverse of formOf. It keeps the fields of the earlier spec that the form does not show. */
export function specOf(form: Form, earlier?: AutomationSpec): AutomationSpec {
  const more: unknown = form.more.trim() ? JSON.parse(form.more) : {};
  if (typeof more !== "object" || more === null || Array.isArray(more)) throw new SyntaxError();
  const { filter: _f, ...event } = earlier?.on?.event ?? {};
  const jitter = earlier?.on?.schedule?.jitter;
  const on =
    form.trigger === "schedule"
      ? { schedule: { cron: form.cron.trim(), timeZone: form.zone.trim(), missed: form.missed, ...(jitter ? { jitter } : {}) } }
      : form.trigger === "event"
        ? { event: { ...event, ...(form.filter.trim() ? { filter: form.filter.trim() } : {}) } }
        : undefined;
  return { ...more, name: form.name.trim(), repository: form.repository.trim(), prompt: form.prompt, concurrency: form.concurrency, ...(form.pull ? { pullRequest: true } : {}), ...(on ? { on } : {}) };
}
