import { lazy, memo, Suspense, useState, type FormEvent } from "react";
import type { Approval } from "../api/types";
import { useAnswer } from "../approvals/answer";
import { kindOf } from "../approvals/kind";
import { keyName } from "../keys";
import { choiceOf, refOf, type Choice } from "../models/choice";
import { useDraft } from "../parts/draft";
import { Icon } from "../parts/Icon";
import { Pictures, usePictures } from "../parts/Pictures";
import { Problem } from "../parts/State";
import { words } from "../words";
import { asFailure, useClient } from "../api/use";
import type { Waiting } from "../journal/entry";
import { toast } from "../parts/toast";
import { drop, enqueue, type Outgoing } from "../store/queue";

const PickModel = lazy(() => import("../models/PickModel"));
const w = words.agent;

/** The box for the next prompt. While the agent works, the server queues it. */
export const FollowUp = memo(function FollowUp({ id, model, busy, archived, queue, outgoing, asked }: { id: string; model: string; busy: boolean; archived: boolean; queue: readonly Waiting[]; outgoing: readonly Outgoing[]; asked: Approval | undefined }) {
  const client = useClient();
  const [text, setText, clear] = useDraft(`follow.${id}`, "");
  const pictures = usePictures();
  const [picking, pick] = useState(false);
  const [other, setOther, keep] = useDraft<{ choice: Choice; name: string } | undefined>(`model.${id}`, undefined); // the model to use from the next prompt on
  const [used, setUsed] = useState(false); // keeps its height after its first use, so that nothing moves under the pointer
  const { answer, busy: answering } = useAnswer();
  const answers = asked !== undefined && pictures.pictures.length === 0; // while the agent asks a question, the text is the answer to it
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (!text.trim() || answering) return;
    if (answers) {
      void answer(asked, kindOf(asked) === "plan" ? "deny" : "answer", { message: text }).then((counts) => counts && clear());
      return;
    }
    enqueue(id, text.trim(), pictures.pictures, other && refOf(other.choice)); // the queue sends the prompt, at once if the agent is idle
    clear();
    keep();
    pictures.clear();
  };
  if (archived) return <div className="follow-up muted small">{w.archivedHint}</div>;
  return (
    <div className="follow-up">
      {queue.length + outgoing.length > 0 && (
        <ul className="queue" aria-label={w.queued}>
          {queue.map((q) => (
            <li key={q.runId}>
              <span className="badge">{w.queued}</span>
              <span className="cut grow" dir="auto">
                {q.text}
              </span>
              <button type="button" className="button quiet small" onClick={() => client.unqueue(id, q.runId).catch((e: unknown) => toast(asFailure(e).message, true))}>
                {w.unqueue}
              </button>
            </li>
          ))}
          {outgoing.map((q) => (
            <li key={q.key}>
              <span className="badge">{w.sending}</span>
              <span className="cut grow" dir="auto">
                {q.text}
              </span>
              <button type="button" className="button quiet small" onClick={() => drop(id, q.key)}>
                {w.unqueue}
              </button>
            </li>
          ))}
        </ul>
      )}
      {pictures.problem && <Problem>{pictures.problem}</Problem>}
      {other && !answers && (
        <p className="row small muted">
          <span className="cut">{words.models.next(other.name)}</span>
          <button type="button" className="button quiet square small" aria-label={words.models.drop} title={words.models.drop} onClick={keep}>
            <Icon name="close" />
          </button>
        </p>
      )}
      <form onSubmit={submit} className="drop" data-over={pictures.over ? "" : undefined} {...pictures.handlers}>
        <Pictures pictures={pictures.pictures} remove={pictures.remove} />
        <textarea
          className="input" id="follow-up" aria-label={w.followUp} dir="auto" rows={used || text ? Math.min(10, Math.max(2, text.split("\n").length)) : 1}
          placeholder={answers ? w.followUpAnswer : busy ? w.followUpBusy : w.followUpHint} value={text} onChange={(e) => setText(e.target.value)} onFocus={() => setUsed(true)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) submit(e);
          }}
        />
        {!answers && (
          <button type="button" className="button quiet square" aria-label={words.models.pick(other?.name ?? model)} title={words.models.pick(other?.name ?? model)} onClick={() => pick(true)}>
            <Icon name="settings" />
          </button>
        )}
        <button type="submit" className="button first" disabled={!text.trim() || answering} title={busy && !answers ? w.queuedHint : keyName("mod+") + "↵"}>
          <Icon name="send" /> {answers ? w.reply : busy ? w.queue : w.send}
        </button>
      </form>
      {picking && (
        <Suspense>
          <PickModel
            now={other?.choice ?? choiceOf(model)} close={() => pick(false)}
            done={(choice, name) => {
              setOther({ choice, name });
              pick(false);
            }}
          />
        </Suspense>
      )}
    </div>
  );
});
