import { expect, test } from "vitest";
import type { Approval } from "../api/types";
import { oneLine } from "./kind";

const request = (more: Partial<Approval>): Approval => ({ id: "apr-1", agentId: "bc-1", runId: "run-1", callId: "c", tool: "Shell", subject: "npm test", why: "", entries: [], askedAt: "", ...more });

test("only what one line tells whole is answered without being opened", () => {
  expect(oneLine(request({}))).toBe(true);
  for (const more of [{ subject: "npm test\nrm -rf x" }, { subject: "x".repeat(301) }, { change: "{}" }, { folder: "/srv" }, { hidden: true, subject: "" }, { tool: "CreatePlan" }, { tool: "AskQuestion" }] as Partial<Approval>[])
    expect(oneLine(request(more)), JSON.stringify(more).slice(0, 60)).toBe(false);
});
