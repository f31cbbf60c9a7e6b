import { expect, test } from "vitest";
import { formOf, specOf } from "./spec";
import type { AutomationSpec } from "../api/types";

test("the form keeps every field of a spec", () => {
  const specs: AutomationSpec[] = [
    { name: "a", repository: "https://git.test/o/r", prompt: "x", concurrency: "queue", pullRequest: true, memory: 3, tools: ["Read"], on: { schedule: { cron: "@daily", timeZone: "Europe/Berlin", missed: "catch-up", jitter: "5m" } } },
    { name: "b", repository: "https://git.test/o/r", prompt: "y", concurrency: "skip", on: { event: { connection: "deploys", filter: "event.kind == 'check'" } } },
    { name: "c", repository: "https://git.test/o/r", prompt: "z", concurrency: "replace", budget: { dollars: 2 } },
  ];
  for (const spec of specs) expect(specOf(formOf(spec), spec)).toEqual(spec);
});

test("more fields must be a JSON object", () => {
  for (const more of ["[", "[]", "3", "null"]) expect(() => specOf({ ...formOf(), more })).toThrow(SyntaxError);
});
