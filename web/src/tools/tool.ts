import type { ReactNode } from "react";
import type { IconName } from "../parts/Icon";
import { clipLine, shownName } from "../parts/clip";
import type { Call } from "../journal/entry";

/** The view of a tool's calls. */
export type Tool = {
  icon: IconName;
  /** The call's subject, on one line. */
  subject: (c: Call) => string;
  /** A short summary of the result. */
  outcome?: (c: Call) => string;
  /** Whether the result is a failure although the call succeeded. */
  bad?: (c: Call) => boolean;
  /** The details that can be opened below. */
  body: (c: Call) => ReactNode;
  /** The videos in the result. */
  videos?: (c: Call) => { path: string; size: number | undefined }[];
  /** Whether the details are open by default. */
  open?: (c: Call) => boolean;
};

export const text = (v: unknown): string => (typeof v === "string" ? v : "");

/** success returns the structured result, if there is one. */
export function success(c: Call): Record<string, unknown> | undefined {
  const s = (c.result as { success?: unknown } | null | undefined)?.success;
  return s !== null && typeof s === "object" ? (s as Record<string, unknown>) : undefined;
}

/** A path relative to the workspace. */
export const short = (path: unknown): string => shownName(clipLine(text(path))).replace(/^\/workspace\//, "");
