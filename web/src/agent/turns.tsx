import { createContext, useContext, useRef, useState, type FormEvent } from "react";
import { newKey } from "../api/key";
import type { Retry } from "../api/types";
import { asFailure, useClient } from "../api/use";
import type { Shot } from "../journal/entry";
import { Copy } from "../parts/Copy";
import { Dialog } from "../parts/Dialog";
import { Icon } from "../parts/Icon";
import type { Picture } from "../parts/Pictures";
import { imagesOf, read } from "../parts/Pictures";
import { Problem } from "../parts/State";
import { toast } from "../parts/toast";
import { words } from "../words";

const w = words.agent.turn;

/** A point from which the conversation can be retried: a run or a turn. */
export type Point = { runId: string; text: string; images: Shot[] } | { turn: number };

/** Actions on the turns of a conversation; free is false while the agent works or is archived. */
export const TurnContext = createContext<{ id: string; model: string; free: boolean; done: () => void; edit: (p: Point) => void; fork: (turn: number) => void } | null>(null);

const bodyOf = (p: Point): Retry => ("turn" in p ? { turn: p.turn } : { runId: p.runId });

/** The buttons of a prompt or a turn. */
export function TurnActs({ point, copy }: { point: Point; copy?: { text: string; label: string } | null }) {
  const of = useContext(TurnContext);
  const client = useClient();
  const [busy, setBusy] = useState(false);
  if (!of) return null;
  const retry = () => {
    setBusy(true);
    client
      .retry(of.id, bodyOf(point), newKey())
      .then(of.done, (e: unknown) => toast(asFailure(e).message, true))
      .finally(() => setBusy(false));
  };
  const off = !of.free || busy;
  return (
    <span className="turn-acts">
      {copy && <Copy {...copy} />}
      <button type="button" className="button quiet small" disabled={off} title={of.free ? w.retryTitle : w.works} onClick={retry}>
        {w.retry}
      </button>
      <button type="button" className="button quiet small" disabled={off} title={of.free ? w.editTitle : w.works} onClick={() => of.edit(point)}>
        {w.edit}
      </button>
      {"turn" in point && (
        <button type="button" className="button quiet small" title={w.forkTitle} onClick={() => of.fork(point.turn)}>
          {w.fork}
        </button>
      )}
    </span>
  );
}

/** Asks for the prompt that replaces the earlier one. */
export function Edit({ id, point, close, done }: { id: string; point: Point; close: () => void; done: () => void }) {
  const client = useClient();
  const [text, setText] = useState("turn" in point ? "" : point.text);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const key = useRef(newKey());
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setBusy(true);
    try {
      const shots = "turn" in point ? [] : point.images;
      const pictures = await Promise.all(shots.map((s) => picture(client.image(id, s.seq, s.n))));
      await client.retry(id, { ...bodyOf(point), prompt: { text: text.trim(), ...(pictures.length > 0 ? { images: imagesOf(pictures) } : {}) } }, key.current);
      close();
      done();
    } catch (e) {
      setProblem(asFailure(e).message);
      setBusy(false);
    }
  };
  return (
    <Dialog title={"turn" in point ? w.sayTitle(point.turn) : w.resendTitle} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <div className="body">
          <p className="muted">{w.lead}</p>
          <div className="field">
            <label htmlFor="resend">{w.prompt}</label>
            <textarea
              id="resend" className="input" rows={6} dir="auto" value={text} onChange={(e) => setText(e.target.value)}
              onKeyDown={(e) => {
                if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && text.trim() && !busy) void submit(e);
              }}
            />
          </div>
          {"images" in point && point.images.length > 0 && <p className="small muted">{words.agent.images(point.images.length)}</p>}
          {problem && <Problem>{problem}</Problem>}
        </div>
        <footer>
          <span className="grow" />
          <button type="button" className="button quiet" onClick={close}>
            {words.spawn.cancel}
          </button>
          <button type="submit" className="button first" disabled={busy || !text.trim()}>
            <Icon name="send" /> {w.resend}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

async function picture(url: string): Promise<Picture> {
  const reply = await fetch(url);
  if (!reply.ok) throw new Error(w.noImage);
  const blob = await reply.blob();
  return { mimeType: blob.type, data: await read(blob) };
}
