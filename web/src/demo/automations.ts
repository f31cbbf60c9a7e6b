import type { Automation, AutomationStart } from "../api/types";

import { idOf, minutesAgo } from "./agents";

const hours = 60;

export const automations: Automation[] = [
  {
    id: "auto-1", state: "active", userId: 1, createdBy: 1, version: 3, failures: 0, createdAt: minutesAgo(9000), updatedAt: minutesAgo(400), nextAt: minutesAgo(-7 * hours),
    spec: {
      name: "Nightly dependency update", repository: "https://git.example.com/acme/shop", prompt: "Update the {{ inputs.level }} dependencies, run the tests, and describe what has changed.\n", pullRequest: true, memory: 3,
      on: { schedule: { cron: "0 3 * * 1-5", timeZone: "Europe/Berlin", missed: "catch-up", jitter: "10m" } },
      inputs: [{ name: "level", type: "choice", options: ["minor", "major"], default: "minor", description: "Which updates" }], budget: { dollars: 2, monthlyDollars: 40 },
    },
  },
  {
    id: "auto-2", state: "paused", reason: "3 starts in a row have failed; the last: the repository cannot be reached", userId: 1, createdBy: 1, version: 1, failures: 3, createdAt: minutesAgo(20_000), updatedAt: minutesAgo(90),
    source: { repository: "https://git.example.com/acme/infra", path: ".aloft/automations/triage.yaml", commit: "c0ffee" },
    spec: { name: "Triage new issues", repository: "https://git.example.com/acme/infra", prompt: "Find the cause of {{ event.title }}.", on: { event: { filter: "event.kind == 'issue'" } } },
  },
  { id: "auto-3", state: "draft", userId: 1, createdBy: 1, version: 1, failures: 0, createdAt: minutesAgo(30), updatedAt: minutesAgo(30), spec: { name: "Release notes", repository: "https://git.example.com/acme/shop", prompt: "Write the release notes." } },
];

const start = (id: string, state: AutomationStart["state"], minutes: number, more: Partial<AutomationStart> = {}): AutomationStart => ({ id, automationId: "auto-1", state, trigger: "schedule", createdAt: minutesAgo(minutes), ...more });

export const starts: AutomationStart[] = [
  start("start-6", "backlog", 3, { trigger: "manual" }),
  start("start-5", "running", 9, { trigger: "manual", agentId: idOf(1), cost: 0.4 }),
  start("start-4", "skipped", 10, { reason: "the start start-5 still works" }),
  start("start-3", "succeeded", 24 * hours, { agentId: idOf(2), cost: 1.12, result: "Updated 14 packages. All tests pass." }),
  start("start-2", "failed", 48 * hours, { agentId: idOf(3), cost: 0.07, reason: "the model is overloaded" }),
];
