import { expect, test } from "vitest";
import type { Call } from "../journal/entry";
import { pull, remarksOf } from "./pull";

const call = (args: unknown, success: unknown = {}) => ({ args, result: { success }, text: "", images: [] }) as unknown as Call;

test("a call says what it does with the pull request", () => {
  expect(pull.subject(call({ action: "PR_ACTION_CREATE", title: "Sort slugs" }))).toBe("open: Sort slugs");
  expect(pull.subject(call({ action: "PR_ACTION_LOG", check: "test" }))).toBe("read log: test");
  expect(pull.subject(call({ action: "PR_ACTION_RESOLVE", thread_id: "T1" }))).toBe("resolve a thread");
  expect(pull.subject(call({ action: "toString" }))).toBe("");
});

test("the remarks that were read are listed with their authors", () => {
  const c = call({ action: "PR_ACTION_THREADS" }, {
    remarks: [
      { author: "ada", body: "Why?", url: "https://git.test/1", path: "list.go", line: 7, resolved: true, mayWrite: "yes" },
      { author: "mallory", body: "x", url: "javascript:alert(1)", verdict: "approved", mayWrite: "no" },
      null, 7,
    ],
  });
  expect(remarksOf(c)).toEqual([
    { author: "ada", body: "Why?", url: "https://git.test/1", about: "list.go:7, resolved" },
    { author: "mallory", body: "x", url: undefined, about: "approved, may not write to the repository" },
  ]);
  expect(pull.outcome?.(c)).toBe("2 remarks");
});

test("failed checks and a timeout are shown beside the call", () => {
  expect(pull.outcome?.(call({}, { checks: [{ state: "failure" }, { state: "success" }] }))).toBe("1 check failed");
  expect(pull.outcome?.(call({}, { timedOut: true }))).toBe("timed out");
  for (const s of [null, "x", { remarks: "x", checks: 7 }]) expect(pull.outcome?.(call({}, s))).toBe("");
});
