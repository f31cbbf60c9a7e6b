import { expect, test } from "vitest";
import type { AgentSummary } from "../api/types";
import { tabOf, titleOf } from "./title";

const agent = (more: Partial<AgentSummary>) => ({ id: "bc-1", name: "Fix it", status: "ACTIVE", ...more }) as AgentSummary;

test("the tab names the agent and shows its status", () => {
  expect(tabOf(agent({ runStatus: "RUNNING" }))).toEqual({ name: "▶ Fix it", icon: "/icon-blue.svg" });
  expect(tabOf(agent({ runStatus: "ERROR" }))).toEqual({ name: "✗ Fix it", icon: "/icon-red.svg" });
  expect(tabOf(agent({ runStatus: "RUNNING", waitingApprovals: 2 })).icon).toBe("/icon-amber.svg");
  expect(tabOf(agent({ runStatus: "CANCELLED" })).icon).toBe("/icon.svg");
  expect(tabOf(agent({ name: "a\u202Eb" })).name).toContain("⟨U+202E⟩");
});

test("the title counts what waits for an answer", () => {
  expect([titleOf(0, ""), titleOf(3, ""), titleOf(3, "✓ Fix it")]).toEqual(["Aloft", "(3) Aloft", "(3) ✓ Fix it – Aloft"]);
});
