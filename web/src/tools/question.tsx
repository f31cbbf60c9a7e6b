import type { Call } from "../journal/entry";
import { Icon } from "../parts/Icon";
import { shownLine } from "../parts/clip";
import { words } from "../words";
import { plain } from "./plain";
import { success, text } from "../parts/call";
import type { Tool } from "./tool";

const most = 4_000; // characters of a question or an answer that are shown
type Asked = { id: string; prompt: string; options: { id: string; label: string }[] };
type Said = { questionId: string; optionIds: string[]; text: string };

const list = (v: unknown): Record<string, unknown>[] => (Array.isArray(v) ? v.filter((x) => x !== null && typeof x === "object") : []);
const askedOf = (c: Call): Asked[] => list(c.args["questions"]).map((q) => ({ id: text(q["id"]), prompt: text(q["prompt"]), options: list(q["options"]).map((o) => ({ id: text(o["id"]), label: text(o["label"]) })) }));
const saidOf = (c: Call): Said[] =>
  list(success(c)?.["answers"]).map((a) => ({ questionId: text(a["questionId"]), optionIds: Array.isArray(a["optionIds"]) ? a["optionIds"].map(text) : [], text: text(a["text"]) }));

/** The agent's questions with the answers. */
export const question: Tool = {
  icon: "help",
  subject: (c) => text(c.args["title"]) || (askedOf(c)[0]?.prompt ?? ""),
  open: (c) => c.state !== "asks" && c.state !== "waiting", // before that, the card below shows the question
  body: (c) => {
    const asked = askedOf(c);
    if (asked.length === 0) return plain.body(c);
    const said = saidOf(c);
    return (
      <dl className="asked">
        {asked.map((q) => {
          const answer = said.find((s) => s.questionId === q.id);
          return (
            <div key={q.id}>
              <dt dir="auto">{shownLine(q.prompt, most)}</dt>
              {q.options.map((o) => (
                <dd key={o.id} data-chosen={answer?.optionIds.includes(o.id) ? "" : undefined} dir="auto">
                  <Icon name={answer?.optionIds.includes(o.id) ? "check" : "dots"} />
                  {answer?.optionIds.includes(o.id) && <span className="seen-by-readers">{words.tools.chosen}: </span>}
                  {shownLine(o.label)}
                </dd>
              ))}
              {answer?.text && (
                <dd data-chosen="" dir="auto">
                  <Icon name="check" />
                  {shownLine(answer.text, most)}
                </dd>
              )}
            </div>
          );
        })}
        {c.state !== "asks" && said.length === 0 && c.text && <dd dir="auto">{shownLine(c.text, most)}</dd>}
      </dl>
    );
  },
};
