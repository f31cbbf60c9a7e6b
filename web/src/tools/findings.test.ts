import { expect, test } from "vitest";
import type { Call } from "../journal/entry";
import { findings, findingsOf } from "./findings";

const reported = (list: unknown) => ({ args: { findings: list }, text: "", images: [] }) as unknown as Call;

test("the findings of a review have their lines, severity and title", () => {
  const c = reported([{ path: "a.go", line: 3, end_line: 5, severity: "FINDING_SEVERITY_HIGH", title: "It panics" }, { path: "b.go", line: 1, severity: "FINDING_SEVERITY_LOW", title: "x" }]);
  expect(findingsOf(c)).toEqual([{ at: "a.go:3-5", severity: "high", title: "It panics" }, { at: "b.go:1", severity: "low", title: "x" }]);
  expect(findings.subject(c)).toBe("2 findings");
});

test("arguments that are no findings are no failure", () => {
  for (const list of [undefined, "x", 7, {}]) expect(findingsOf(reported(list))).toEqual([]);
  expect(findingsOf(reported([null, 7]))).toHaveLength(2);
});
