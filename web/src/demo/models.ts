import type { Model } from "../api/types";

const effort = { id: "effort", displayName: "Effort", values: [{ value: "low", displayName: "Low" }, { value: "medium", displayName: "Medium" }, { value: "high", displayName: "High" }] };
const thinking = { id: "thinking", displayName: "Thinking", values: [{ value: "on", displayName: "On" }, { value: "off", displayName: "Off" }] };

/** The demo's models; one has parameters. */
export const models: Model[] = [
  {
    id: "opus", displayName: "Claude Opus", aliases: ["default"], parameters: [effort, thinking],
    variants: [{ params: [{ id: "effort", value: "medium" }], displayName: "Claude Opus", isDefault: true }],
  },
  { id: "local", displayName: "Qwen on this machine" },
];
