import { expect, test } from "vitest";
import type { Call } from "../journal/entry";
import { recording } from "./recording";

const saved = (success: unknown, args: unknown = { mode: "SAVE_RECORDING", save_as_filename: "a.webm" }) => ({ args, result: { success }, text: "", images: [] }) as unknown as Call;

test("a recording that was saved is played, if it is a video among the artifacts", () => {
  const c = saved({ mode: "SAVE_RECORDING", filePath: "/opt/cursor/artifacts/a.webm", durationMs: 12_400, sizeBytes: 48_211 });
  expect(recording.videos?.(c)).toEqual([{ path: "/opt/cursor/artifacts/a.webm", size: 48_211 }]);
  expect(recording.subject(c)).toBe("save a.webm");
  expect(recording.outcome?.(c)).toBe("12 s · 47.1 kB");
  expect(recording.open?.(c)).toBe(true);
});

test("what a machine says beyond that is not believed", () => {
  for (const filePath of ["/opt/cursor/artifacts/a.html", "/opt/cursor/artifacts/a.svg", "/etc/a.webm", "https://evil.example/a.webm", "javascript:a.webm", 7, null, undefined, { a: 1 }])
    expect(recording.videos?.(saved({ filePath }))).toEqual([]);
  for (const success of [null, "x", [], { filePath: "/opt/cursor/artifacts/a.mp4", durationMs: "x", sizeBytes: -1 }]) expect(recording.outcome?.(saved(success))).toBe("");
  expect(recording.subject(saved({}, { mode: "constructor", save_as_filename: 5 }))).toBe("");
  expect(recording.videos?.({ ...saved({}), result: undefined } as Call)).toEqual([]);
});
