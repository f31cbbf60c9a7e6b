import type { Model, ModelRef } from "../api/types";

/**
 * A chosen model ("" for the server's default) and the values of its parameters. Absent parameters
 * have the model's default.
 */
export type Choice = { id: string; params: Readonly<Record<string, string>> };

export const standard: Choice = { id: "", params: {} };

/** Parses a model reference as agents have it: opus, or opus[effort=high,thinking=on]. */
export function choiceOf(name: string): Choice {
  const [, id, list = ""] = /^([^[]+)\[([^\]]*=[^\]]*)\]$/.exec(name) ?? [];
  const sets = list.split(",").map((set) => /^\s*([^=]+)=(.*)$/.exec(set));
  if (!id || sets.some((set) => !set)) return { id: name, params: {} };
  return { id, params: Object.fromEntries(sets.map((set) => [set?.[1] ?? "", set?.[2] ?? ""])) };
}

/** Converts a choice to the form for requests; undefined leaves the model to the server. */
export function refOf({ id, params }: Choice): ModelRef | undefined {
  const set = Object.entries(params).filter(([, value]) => value !== "");
  if (!id && set.length === 0) return undefined;
  return { id: id || "default", ...(set.length > 0 ? { params: set.map(([id, value]) => ({ id, value })) } : {}) };
}

/** modelOf finds the chosen model; the server lists the default first. */
export const modelOf = (models: readonly Model[], { id }: Choice): Model | undefined => (id ? models.find((m) => m.id === id) : models.find((m) => m.aliases?.includes("default")));

/** The default value of a parameter; "" if the model's provider decides. */
export const standardValue = (m: Model, param: string): string => m.variants?.find((v) => v.isDefault)?.params.find((p) => p.id === param)?.value ?? "";

/** Formats a choice: Claude Opus, Effort: High. */
export function nameOf(models: readonly Model[], choice: Choice): string {
  const m = modelOf(models, choice);
  const params = Object.entries(choice.params).flatMap(([id, value]) => {
    const p = m?.parameters?.find((p) => p.id === id);
    return value ? [`${p?.displayName ?? id}: ${p?.values.find((v) => v.value === value)?.displayName ?? value}`] : [];
  });
  return [m?.displayName ?? choice.id, ...params].join(", ");
}
