import { useId, useState, type FormEvent } from "react";
import type { Approval, Question, QuestionAnswer } from "../api/types";
import { shownLine } from "../parts/clip";
import { words } from "../words";
import { useAnswer } from "./answer";

const w = words.approval;
const most = 4_000; // maximum length of a question, in characters

type Said = { chosen: readonly string[]; text: string };
const nothing: Said = { chosen: [], text: "" };

/** An agent's questions, with inputs for the answers. */
export function QuestionForm({ approval: a }: { approval: Approval }) {
  const { answer, busy } = useAnswer();
  const [done, setDone] = useState(false);
  const [said, setSaid] = useState<Record<string, Said>>({});
  const questions = a.questions ?? [];
  const say = (id: string, next: Said) => setSaid((old) => ({ ...old, [id]: next }));
  const answers: QuestionAnswer[] = questions.flatMap((q) => {
    const { chosen, text } = said[q.id] ?? nothing;
    return chosen.length > 0 || text.trim() ? [{ questionId: q.id, optionIds: [...chosen], text: text.trim() }] : [];
  });
  const give = async (answers: QuestionAnswer[]) => setDone(await answer(a, answers.length > 0 ? "answer" : "deny", { answers }));
  // If there is only one question with one choice, a single click answers it.
  const only = questions.length === 1 && !questions[0]?.allowMultiple && (questions[0]?.options.length ?? 0) > 0;
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (answers.length > 0) void give(answers);
  };
  return (
    <form className="questions" onSubmit={submit}>
      {questions.map((q) => (
        <One
          key={q.id} question={q} said={said[q.id] ?? nothing} say={(next) => say(q.id, next)} disabled={busy || done}
          {...(only ? { pick: (option: string) => void give([{ questionId: q.id, optionIds: [option], text: said[q.id]?.text.trim() ?? "" }]) } : {})}
        />
      ))}
      <div className="approval-acts">
        {(!only || answers.length > 0) && (
          <button type="submit" className="button first small" disabled={busy || done || answers.length === 0}>
            {done ? w.answered : w.answer}
          </button>
        )}
        <button type="button" className="button small" disabled={busy || done} onClick={() => void give([])}>
          {w.leave}
        </button>
      </div>
    </form>
  );
}

type OneProps = { question: Question; said: Said; say: (next: Said) => void; pick?: (option: string) => void; disabled: boolean };

function One({ question: q, said, say, pick, disabled }: OneProps) {
  const name = useId();
  const choose = (id: string, on: boolean) => say({ ...said, chosen: q.allowMultiple ? (on ? [...said.chosen, id] : said.chosen.filter((c) => c !== id)) : on ? [id] : [] });
  return (
    <fieldset className="question" disabled={disabled}>
      <legend dir="auto">{shownLine(q.prompt, most)}</legend>
      {q.options.map((o) =>
        pick ? (
          <button key={o.id} type="button" className="button option" dir="auto" onClick={() => pick(o.id)}>
            {shownLine(o.label)}
          </button>
        ) : (
          <label key={o.id} className="option">
            <input type={q.allowMultiple ? "checkbox" : "radio"} name={name} checked={said.chosen.includes(o.id)} onChange={(e) => choose(o.id, e.target.checked)} />
            <span dir="auto">{shownLine(o.label)}</span>
          </label>
        ),
      )}
      <input
        className="input" dir="auto" aria-label={`${w.inWords}: ${shownLine(q.prompt)}`} placeholder={q.options.length > 0 ? w.otherwise : w.inWords} maxLength={4000}
        value={said.text} onChange={(e) => say({ ...said, text: e.target.value })}
      />
    </fieldset>
  );
}
