import type { Call } from "../journal/entry";
import { clipLine, shownName } from "./clip";

export const text = (v: unknown): string => (typeof v === "string" ? v : "");

/** success returns the structured result, if there is one. */
export function success(c: Call): Record<string, unknown> | undefined {
  const s = (c.result as { success?: unknown } | null | undefined)?.success;
  return s !== null && typeof s === "object" ? (s as Record<string, unknown>) : undefined;
}

/** A path relative to the workspace. */
export const short = (path: unknown): string => shownName(clipLine(text(path))).replace(/^\/workspace\//, "");
