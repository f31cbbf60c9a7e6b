import { memo, useContext } from "react";
import type { Again, Entry, Shot } from "../journal/entry";
import { Icon, type IconName } from "../parts/Icon";
import { Copy } from "../parts/Copy";
import { Markdown } from "../parts/Markdown";
import { span, useSecondsTo } from "../parts/time";
import { link, pathOf } from "../route";
import { words } from "../words";
import { CallRow } from "./CallRow";
import { cost } from "../parts/money";
import { Shots } from "../parts/Shots";
import { clip, shown, shownProse } from "../parts/clip";
import { few } from "../few";
import { useFold } from "./folds";
import { enqueue } from "../store/queue";
import { Evidence, Outcome } from "./Evidence";
import { RetryRun } from "./RetryRun";
import { TurnActs, TurnContext } from "./turns";

const w = words.agent;

/** One entry of a conversation. It is rendered again when its rev increases. */
export const Row = memo(
  function Row({ entry }: { entry: Entry; rev: number }) {
    switch (entry.kind) {
      case "prompt":
        return (
          <div className="said">
            <span className="who">
              {entry.fromPull ? w.fromPull : w.you} {entry.plan && <span className="badge">{w.planMode}</span>}
            </span>
            <div className="words">
              {shownProse(clip(entry.text, 100_000))}
            </div>
            <OwnShots shots={entry.images} />
            <TurnActs point={entry} copy={{ text: entry.text, label: w.copyMessage }} />
          </div>
        );
      case "turn":
        return <TurnLine entry={entry} />;
      case "replaced":
        return <Replaced entry={entry} />;
      case "text":
        return (
          <div className="message">
            {!entry.live && <Copy text={entry.text} label={w.copyMessage} />}
            <Markdown text={entry.text} live={entry.live} />
          </div>
        );
      case "thinking":
        return <Thinking entry={entry} />;
      case "call":
        return <CallRow call={entry.call} id={entry.key} />;
      case "boot":
        return <Boot entry={entry} />;
      case "note":
        return <Noted entry={entry} />;
      case "end":
        return (
          <div className="ended" data-status={entry.status} data-outcome={entry.outcome}>
            <Icon name={entry.status === "FINISHED" ? (entry.outcome && entry.outcome !== "done" ? "warn" : "check") : entry.status === "CANCELLED" ? "stop" : "warn"} />
            <div className="grow">
              <strong>{w.ended[entry.status] ?? entry.status}</strong> <span className="faint">{w.after(span(entry.ms))}</span> {entry.outcome && <Outcome outcome={entry.outcome} evidence={entry.evidence} />}
              {entry.message && <p dir="auto">{shown(clip(entry.message, 10_000))}</p>}
              {entry.hint && <p className="muted">{entry.hint}</p>}
              {entry.evidence && <Evidence evidence={entry.evidence} />}
              {entry.status === "EXPIRED" && !entry.over && <Continue />}
              {entry.status === "ERROR" && !entry.over && <RetryRun />}
            </div>
            {entry.code && <code className="faint">{entry.code}</code>}
          </div>
        );
    }
  },
  (a, b) => a.entry === b.entry && a.rev === b.rev,
);

type Of<K extends Entry["kind"]> = { entry: Extract<Entry, { kind: K }> };

function OwnShots({ shots }: { shots: readonly Shot[] }) {
  const of = useContext(TurnContext);
  return of && <Shots id={of.id} shots={shots} />;
}

/** Continues an agent that has reached a limit: the limits apply to each run separately. */
function Continue() {
  const of = useContext(TurnContext);
  if (!of) return null;
  return (
    <button type="button" className="button small" disabled={!of.free} title={w.goOnTitle} onClick={() => enqueue(of.id, w.goOnPrompt, [])}>
      <Icon name="play" /> {w.goOn}
    </button>
  );
}

const turnPath = (id: string, no: number) => `${pathOf({ page: "agent", id, tab: "conversation" })}#turn-${no}`;

/** The duration and usage of a turn, and its actions. */
function TurnLine({ entry }: Of<"turn">) {
  const of = useContext(TurnContext);
  const { input, output, cacheRead, cacheWrite } = entry.tokens;
  const total = input + output + cacheRead + cacheWrite;
  return (
    <div className="turn-line small faint">
      {of ? <a href={turnPath(of.id, entry.no)}>{w.turn.no(entry.no)}</a> : <span>{w.turn.no(entry.no)}</span>}
      {total > 0 && <span title={w.tokensTitle(input, output, cacheRead, cacheWrite)}>{w.tokens(few(total))}</span>}
      {total > 0 && <span>{cost(entry.tokens)}</span>}
      {entry.ms > 0 && <span>{span(entry.ms)}</span>}
      <TurnActs point={{ turn: entry.no }} copy={of && { text: location.origin + turnPath(of.id, entry.no), label: w.copyLink }} />
    </div>
  );
}

const mostReplaced = 200; // maximum number of replaced entries that are shown

function Replaced({ entry }: Of<"replaced">) {
  const [open, flip] = useFold(entry.key, false);
  return (
    <div className="replaced">
      <button type="button" className="fold" aria-expanded={open} onClick={flip}>
        <Icon name={open ? "down" : "right"} />
        <Icon name="clock" />
        {w.turn.replaced(entry.turns)}
      </button>
      {open && (
        <TurnContext value={null}>
          <div className="replaced-body">
            {entry.entries.slice(0, mostReplaced).map((e) => (
              <Row key={e.key} entry={e} rev={e.rev} />
            ))}
          </div>
        </TurnContext>
      )}
    </div>
  );
}

function Thinking({ entry }: Of<"thinking">) {
  const [open, flip] = useFold(entry.key, false);
  return (
    <div className="thinking">
      <button type="button" className="fold" aria-expanded={open} onClick={flip}>
        <Icon name={open ? "down" : "right"} />
        <Icon name={entry.live ? "spinner" : "think"} spin={entry.live} />
        {entry.live ? w.thinking : w.thought}
        {!open && (
          <span className="cut faint" dir="auto">
            {entry.text.slice(0, 200)}
          </span>
        )}
      </button>
      {open && <Markdown text={entry.text} live={entry.live} />}
    </div>
  );
}

function Boot({ entry }: Of<"boot">) {
  const failed = entry.steps.some((s) => s.state === "failed");
  const [open, flip] = useFold(entry.key, !entry.done || failed);
  const ms = entry.steps.reduce((n, s) => n + (s.ms ?? 0), 0);
  return (
    <div className="boot">
      <button type="button" className="fold" aria-expanded={open} onClick={flip}>
        <Icon name={open ? "down" : "right"} />
        <Icon name={entry.done ? "machine" : failed ? "warn" : "spinner"} spin={!entry.done && !failed} />
        {entry.done ? w.booted : w.boot}
        {ms > 0 && <span className="faint">{span(ms)}</span>}
      </button>
      {open && (
        <ol className="steps">
          {entry.steps.map((s) => (
            <li key={s.name} data-state={s.state}>
              <Icon name={s.state === "done" ? "check" : s.state === "failed" ? "warn" : "spinner"} spin={s.state === "running"} />
              <span>{s.name}</span>
              {s.ms !== undefined && <span className="faint small">{span(s.ms)}</span>}
              {s.detail && <pre tabIndex={0}>{s.detail}</pre>}
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}

const icons: Partial<Record<Extract<Entry, { kind: "note" }>["about"], IconName>> = {
  pushed: "branch", pulled: "branch", unpulled: "warn", committed: "check", paused: "pause", resumed: "play", cancel: "stop", lost: "warn", memory: "warn", disk: "warn", retry: "clock", compacted: "archive",
};

/** Shows which attempt has failed and, while another is pending, the time until it. */
function Attempt({ attempt, attempts, next }: Again) {
  const seconds = useSecondsTo(next);
  return (
    <span className="attempt" role="timer">
      {w.attempt(attempt, attempts)}
      {seconds > 0 && `, ${w.nextAttempt(seconds)}`}
    </span>
  );
}

function Noted({ entry }: Of<"note">) {
  const of = useContext(TurnContext);
  const long = entry.text.length > 160 || entry.text.includes("\n");
  const [open, flip] = useFold(entry.key, false);
  const head = (
    <>
      <Icon name={icons[entry.about] ?? "machine"} />
      {w.note[entry.about]}
      {entry.again && <Attempt {...entry.again} />}
      {entry.text && !open && (
        <span className="cut" dir="auto">
          {shownProse(entry.text.slice(0, 300))}
        </span>
      )}
    </>
  );
  return (
    <div className="noted" data-tone={entry.tone}>
      {long ? (
        <button type="button" className="fold" aria-expanded={open} onClick={flip}>
          {head}
        </button>
      ) : (
        <div className="fold">
          {head}
          {entry.about === "pushed" && <Copy text={w.merge(entry.text.split(" ")[0] ?? "")} label={w.copyMerge} />}
          {entry.about === "pushed" && of && <a {...link({ page: "agent", id: of.id, tab: "changes" })}>{w.seeChanges}</a>}
        </div>
      )}
      {open && <pre tabIndex={0}>{clip(entry.text, 40_000)}</pre>}
    </div>
  );
}
