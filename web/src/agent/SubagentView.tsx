import type { Call, Subagent } from "../journal/entry";
import { clip, shownLine, shownProse } from "../parts/clip";
import { few } from "../few";
import { Markdown } from "../parts/Markdown";
import { cost } from "../parts/money";
import { words } from "../words";
import { Row } from "./Row";

const most = 300; // maximum number of entries that are shown, the newest

/** The conversation of a subagent: its task, its work and its result. */
export function SubagentView({ of, call }: { of: Subagent; call: Call }) {
  const { entries, tokens } = of.said;
  const told = entries.filter((e) => e.kind !== "turn");
  const total = tokens.input + tokens.output + tokens.cacheRead + tokens.cacheWrite;
  return (
    <section className="subagent" aria-label={shownLine(words.tools.subagent.of(of.type, of.description))}>
      <p className="small muted">
        {of.model} {total > 0 && <>· {words.agent.tokens(few(total))} · {cost(tokens)}</>}
      </p>
      <div className="said">
        <span className="who">{words.tools.subagent.asked}</span>
        <div className="words">{shownProse(clip(of.task, 20_000))}</div>
      </div>
      {told.length > most && <p className="small muted">{words.tools.subagent.earlier(told.length - most)}</p>}
      {told.slice(-most).map((e) => (
        <Row key={e.key} entry={e} rev={e.rev} />
      ))}
      {call.state === "failed" && call.text && <Markdown text={call.text} />}
    </section>
  );
}
