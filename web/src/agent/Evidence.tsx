import type { Check, Proof } from "../journal/event";
import { clip } from "../parts/clip";
import { Icon } from "../parts/Icon";
import { span } from "../parts/time";
import { words } from "../words";

const w = words.evidence;

/** The outcome of a run, next to its status. */
export function Outcome({ outcome, evidence }: { outcome: string; evidence?: Proof | undefined }) {
  const unchecked = outcome === "done" && !evidence?.checks?.length && !evidence?.goal;
  return <span className="badge" title={unchecked ? w.unchecked : w.titles[outcome]}>{unchecked ? w.notChecked : (w.outcomes[outcome] ?? outcome)}</span>;
}

/** The results of a run's checks. */
export function Evidence({ evidence }: { evidence: Proof }) {
  const { goal, checks = [], bugfixes = [] } = evidence;
  if (checks.length === 0 && !goal && bugfixes.length === 0) return null;
  return (
    <>
      <ul className="checks" aria-label={w.checks}>
        {checks.map((c) => (
          <Result key={c.command} check={c} />
        ))}
        {goal && (
          <li data-state={goal.met ? "passed" : "failed"}>
            <div className="row" title={goal.goal}>
              <Icon name={goal.met ? "check" : "warn"} />
              <span dir="auto">{goal.met ? w.goalMet : goal.failure ? w.goalUnknown(goal.failure) : w.goalNotMet(clip(goal.missing ?? "", 4_000))}</span>
            </div>
          </li>
        )}
        {bugfixes.map((b) => (
          <li key={`bug ${b.id}`} data-state={b.verdict === "not_fixed" ? "failed" : "passed"}>
            <div className="row" title={clip(b.explanation ?? "", 4_000)}>
              <Icon name={b.verdict === "fixed" ? "check" : "warn"} />
              <span dir="auto">{w.bugs[b.verdict]?.(clip(b.title ? `${b.id} (${b.title})` : b.id, 500))}</span>
            </div>
          </li>
        ))}
      </ul>
      {evidence.stale && <p className="muted">{w.stale}</p>}
    </>
  );
}

function Result({ check }: { check: Check }) {
  const head = (
    <>
      <Icon name={check.state === "passed" ? "check" : "warn"} />
      <code dir="auto">{clip(check.command, 500)}</code>
      <span className="faint">
        {check.state === "failed" && check.exitCode !== undefined ? w.exit(check.exitCode) : (w.states[check.state] ?? check.state)}
        {check.durationMs ? `, ${span(check.durationMs)}` : ""}
      </span>
    </>
  );
  return (
    <li data-state={check.state}>
      {check.output ? (
        <details>
          <summary>{head}</summary>
          <pre tabIndex={0} dir="auto">{clip(check.output, 10_000)}</pre>
        </details>
      ) : (
        <div className="row">{head}</div>
      )}
    </li>
  );
}
