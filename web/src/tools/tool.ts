import type { ReactNode } from "react";
import type { IconName } from "../parts/Icon";
import { clipLine, shownName } from "../parts/clip";
import type { Call } from "../journal/fold";

/** How calls of one tool are shown. */
export type Tool = {
  icon: IconName;
  /** What the call is about, on one line. */
  subject: (c: Call) => string;
  /** A few words on what came of it. */
  outcome?: (c: Call) => string;
  /** Whether it came to no good though the call was done. */
  bad?: (c: Call) => boolean;
  /** What unfolds below. */
  body: (c: Call) => ReactNode;
  /** The videos that came of it. */
  videos?: (c: Call) => { path: string; size: number | undefined }[];
  /** Whether it is unfolded before anybody has said so. */
  open?: (c: Call) => boolean;
};

export const text = (v: unknown): string => (typeof v === "string" ? v : "");

/** success is the result for programs, if there is one. */
export function success(c: Call): Record<string, unknown> | undefined {
  const s = (c.result as { success?: unknown } | null | undefined)?.success;
  return s !== null && typeof s === "object" ? (s as Record<string, unknown>) : undefined;
}

/** A path without the workspace before it. */
export const short = (path: unknown): string => shownName(clipLine(text(path))).replace(/^\/workspace\//, "");
