import { expect, test } from "vitest";
import type { Model } from "../api/types";
import { choiceOf, modelOf, nameOf, refOf, standard, standardValue } from "./choice";

const effort = { id: "effort", displayName: "Effort", values: [{ value: "low", displayName: "Low" }, { value: "high", displayName: "High" }] };
const models: Model[] = [
  { id: "opus", displayName: "Claude Opus", aliases: ["default"], parameters: [effort], variants: [{ params: [{ id: "effort", value: "low" }], displayName: "Claude Opus", isDefault: true }] },
  { id: "local", displayName: "Qwen" },
];

test("the names that agents have are read, and sent as references", () => {
  for (const [name, choice] of [
    ["opus", { id: "opus", params: {} }],
    ["opus[effort=high,thinking=on]", { id: "opus", params: { effort: "high", thinking: "on" } }],
    ["org/model[1m]", { id: "org/model[1m]", params: {} }],
    ["", { id: "", params: {} }],
  ] as const)
    expect(choiceOf(name), name).toEqual(choice);
  expect(refOf(standard)).toBeUndefined();
  expect(refOf({ id: "opus", params: {} })).toEqual({ id: "opus" });
  expect(refOf({ id: "opus", params: { effort: "", thinking: "on" } })).toEqual({ id: "opus", params: [{ id: "thinking", value: "on" }] });
  expect(refOf({ id: "", params: { effort: "high" } })).toEqual({ id: "default", params: [{ id: "effort", value: "high" }] });
});

test("a choice is told in words", () => {
  expect(modelOf(models, standard)?.id).toBe("opus");
  expect(standardValue(models[0] as Model, "effort")).toBe("low");
  expect(nameOf(models, { id: "opus", params: { effort: "high" } })).toBe("Claude Opus, Effort: High");
  expect(nameOf(models, { id: "gone", params: {} })).toBe("gone");
});
