import type { Call } from "../journal/entry";
import { shown, shownLine, clip } from "../parts/clip";
import { words } from "../words";
import { plain } from "./plain";
import { success, text } from "../parts/call";
import type { Tool } from "./tool";

const most = 100; // maximum number of actions that are shown; a call may not have more
const inSubject = 8; // how many of them the call's line names
const mostTyped = 40_000; // characters of typed text that are shown
const w = words.tools.computer;

type Fields = Record<string, unknown>;
const fields = (v: unknown): Fields => (v !== null && typeof v === "object" ? (v as Fields) : {});

/** A string or number from the machine or the model; zeros are absent on the wire. */
const plainly = (v: unknown, otherwise = "0"): string => (v === undefined ? otherwise : shownLine(typeof v === "number" ? String(v) : text(v), 40));
const place = (v: unknown): string => (v !== null && typeof v === "object" ? w.place(plainly(fields(v)["x"]), plainly(fields(v)["y"])) : "");
const at = (v: unknown): string => (place(v) ? w.at(place(v)) : "");
const of = (names: Record<string, string>, v: unknown): string => (Object.hasOwn(names, text(v)) ? (names[text(v)] ?? "") : plainly(v, ""));
const button = (a: Fields) => of(w.buttons, a["button"] ?? "MOUSE_BUTTON_LEFT");

/** The text for each action by its name on the wire; a model may write the name in either style. */
const said: Record<string, (a: Fields, most: number) => string> = {
  mouse_move: (a) => w.move(place(a["coordinate"])),
  click: (a) => `${w.click(button(a))}${at(a["coordinate"])}`,
  mouse_down: (a) => `${w.press(button(a))}${at(a["coordinate"])}`,
  mouse_up: (a) => `${w.release(button(a))}${at(a["coordinate"])}`,
  drag: (a) => w.drag(button(a), place(a["start"]), place(a["end"])),
  scroll: (a) => `${w.scroll(of(w.directions, a["direction"] ?? "SCROLL_DIRECTION_DOWN"), plainly(a["amount"]))}${at(a["coordinate"])}`,
  type: (a, most) => w.type(shownLine(text(a["text"]), most)),
  key: (a) => w.key(shownLine(text(a["key"]), 100)),
  wait: (a) => w.wait(plainly(a["duration_ms"] ?? a["durationMs"])),
  screenshot: () => w.screenshot,
  cursor_position: () => w.cursor,
};

const snake = (name: string) => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

/** An action as text. An action with two names is invalid; both are shown. */
function inWords(action: unknown, most: number): string {
  const parts = Object.entries(fields(action)).slice(0, 3).map(([name, a]) => {
    const known = snake(name.slice(0, 40));
    return Object.hasOwn(said, known) ? said[known]?.(fields(a), most) : w.unknown(shownLine(name, 40));
  });
  return parts.join(", ") || w.unknown("");
}

const actions = (c: Call): unknown[] => (Array.isArray(c.args["actions"]) ? c.args["actions"] : []);

/** The actions on the desktop; CallRow shows the screenshots below. */
export const computer: Tool = {
  icon: "machine",
  subject: (c) => actions(c).slice(0, inSubject).map((a) => inWords(a, 60).replace(/\s+/g, " ")).join(" · "),
  outcome: (c) => {
    const done = success(c)?.["actionsDone"];
    return typeof done === "number" ? w.done(done) : "";
  },
  open: (c) => c.state === "asks" || c.state === "failed",
  body: (c) => {
    const all = actions(c);
    if (all.length === 0) return plain.body(c);
    const each = Math.min(5_000, Math.floor(mostTyped / Math.min(all.length, most)));
    const cursor = place(success(c)?.["cursor"]);
    return (
      <div className="acts" role="group" aria-label={w.acts} tabIndex={0}>
        <ol>
          {all.slice(0, most).map((a, i) => (
            <li key={i}>{inWords(a, each)}</li>
          ))}
        </ol>
        {all.length > most && <p className="muted">{words.approval.more(all.length - most)}</p>}
        {cursor && <p className="muted">{w.pointer(cursor)}</p>}
        {c.state === "failed" && <p className="bad">{shown(clip(c.text, 4_000))}</p>}
      </div>
    );
  },
};
