import { isVideo } from "../parts/Video";
import { sizeOf } from "../few";
import { clip, shown } from "../parts/clip";
import { span } from "../parts/time";
import { words } from "../words";
import { short, success, text } from "../parts/call";
import type { Tool } from "./tool";

const number = (v: unknown): number => (typeof v === "number" && v >= 0 && Number.isFinite(v) ? v : 0);
const modes: Record<string, string> = words.tools.recording;

/** A recording of the desktop: started, saved or discarded. */
export const recording: Tool = {
  icon: "play",
  subject: (c) => [Object.hasOwn(modes, text(c.args["mode"])) ? modes[text(c.args["mode"])] : "", short(c.args["save_as_filename"] ?? c.args["saveAsFilename"])].filter(Boolean).join(" "),
  outcome: (c) => {
    const done = success(c);
    return [done && number(done["durationMs"]) > 0 && span(number(done["durationMs"])), done && number(done["sizeBytes"]) > 0 && sizeOf(number(done["sizeBytes"]))].filter(Boolean).join(" · ");
  },
  videos: (c) => {
    const done = success(c);
    const path = text(done?.["filePath"]);
    return done && path.startsWith("/opt/cursor/artifacts/") && isVideo(path) ? [{ path, size: number(done["sizeBytes"]) || undefined }] : [];
  },
  open: (c) => text(success(c)?.["filePath"]) !== "",
  body: (c) => (c.text ? <pre className="output">{shown(clip(c.text, 4_000))}</pre> : null),
};
