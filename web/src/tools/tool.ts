import type { ReactNode } from "react";
import type { IconName } from "../parts/Icon";
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
