import { useContext } from "react";
import type { Call } from "../journal/entry";
import { ApprovalCard } from "../approvals/Card";
import { Icon } from "../parts/Icon";
import { clip, shownLine } from "../parts/clip";
import { Shots } from "../parts/Shots";
import { span } from "../parts/time";
import { Video } from "../parts/Video";
import { toolOf } from "../tools";
import { words } from "../words";
import { useFold } from "./folds";
import { SubagentView } from "./SubagentView";
import { TurnContext } from "./turns";

const tones: Partial<Record<Call["state"], string>> = { failed: "red", refused: "red", cut: "red", asks: "amber", unstarted: "amber" };

const inRequest = new Set(["Shell", "CreatePlan"]); // tools whose approval request shows the same details as the call

/** A tool call: a row that can be expanded. */
export function CallRow({ call, id }: { call: Call; id: string }) {
  const of = useContext(TurnContext);
  const tool = toolOf(call.name);
  const [open, flip] = useFold(id, (tool.open?.(call) ?? false) || call.images.length > 0);
  const outcome = tool.outcome?.(call);
  const judged = call.judged ? words.tools.judged[call.judged.treatment] : "";
  const live = call.state === "running";
  return (
    <div className="call" data-state={call.state}>
      <button type="button" className="call-head" aria-expanded={open} onClick={flip}>
        <Icon name={open ? "down" : "right"} />
        <Icon name={live ? "spinner" : tool.icon} spin={live} />
        <span className="call-name">{shownLine(call.name, 60)}</span>
        <span className="cut grow mono muted">
          {shownLine(tool.subject(call))}
        </span>
        {outcome && <span className={tool.bad?.(call) ? "small bad" : "small faint"}>{outcome}</span>}
        {judged && call.state !== "refused" && (
          <span className="small faint wide-only" title={call.judged?.why}>
            {judged}
          </span>
        )}
        {tones[call.state] ? (
          <span className="badge" data-tone={tones[call.state]}>
            {words.tools.state[call.state]}
          </span>
        ) : (
          <span className="seen-by-readers">{words.tools.state[call.state]}</span>
        )}
        {call.ms !== undefined && <span className="small faint when">{span(call.ms)}</span>}
      </button>
      {open && !(call.approval && inRequest.has(call.name)) && (
        <div className="call-body">
          {call.subagent ? <SubagentView of={call.subagent} call={call} /> : tool.body(call)}
          {of && <Shots id={of.id} shots={call.images} />}
          {of && tool.videos?.(call).map((v) => <Video key={v.path} id={of.id} {...v} />)}
          {call.state === "refused" && call.text && <p className="small muted">{clip(call.text, 20_000)}</p>}
        </div>
      )}
      {call.approval && <ApprovalCard approval={call.approval} bare />}
    </div>
  );
}
