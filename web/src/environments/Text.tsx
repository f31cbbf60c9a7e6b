import { lazy, Suspense, useEffect, useState } from "react";
import type { Schema } from "../api/client";
import type { Checked, Finding } from "../api/types";
import { asFailure, offline, useClient } from "../api/use";
import { Code } from "../parts/Code";
import { Icon } from "../parts/Icon";
import { Loading, Problem } from "../parts/State";
import { words } from "../words";

const JsonEditor = lazy(() => import("./JsonEditor"));
const w = words.environments;
const none: readonly Finding[] = [];
let schema: Promise<Schema> | undefined;

const pause = 250; // milliseconds without typing before the text is checked

/**
 * Lets the server check a text when it changes, as `aloft env check` does. Until the server has
 * answered, the previous findings are shown.
 */
function useChecked(text: string): { checked?: Checked; fresh: boolean; problem: string } {
  const client = useClient();
  const [state, setState] = useState<{ of?: string; checked?: Checked; problem: string }>({ problem: "" });
  const away = offline.use();
  useEffect(() => {
    let over = false;
    const timer = setTimeout(() => {
      client.checkEnvironment(text).then(
        (checked) => !over && setState({ of: text, checked, problem: "" }),
        (e: unknown) => !over && setState((s) => ({ ...s, problem: asFailure(e).message })),
      );
    }, pause);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [client, text, away]);
  return { ...state, fresh: state.of === text };
}

/** An environment.json, editable for those who may change it, with its findings and its meaning. */
export function EnvironmentText({ text, first, changed, save }: { text: string; first: string; changed?: ((text: string) => void) | undefined; save: () => void }) {
  const client = useClient();
  const { checked, fresh, problem } = useChecked(text);
  const [known, setKnown] = useState<Schema>();
  const [goTo, setGoTo] = useState<{ line: number; column: number }>();
  useEffect(() => {
    schema ??= client.environmentSchema();
    schema.then(setKnown, () => (schema = undefined)); // without the schema there are no completions
  }, [client]);
  const findings = checked?.findings ?? none;
  const errors = findings.filter((f) => f.severity === "error").length;
  return (
    <div className="env-text">
      <div className="env-editor">
        {changed ? (
          <Suspense fallback={<Loading rows={6} />}>
            <JsonEditor text={first} changed={changed} save={save} schema={known} findings={fresh ? findings : none} goTo={goTo} />
          </Suspense>
        ) : (
          <pre className="block" tabIndex={0} aria-label={w.editor}>
            <Code code={text} language="json" />
          </pre>
        )}
      </div>
      <aside className="env-says">
        <h2>{w.findings}</h2>
        {problem && <Problem tone="amber">{problem}</Problem>}
        <p className="small muted" role="status">
          {!checked ? w.checking : findings.length === 0 ? w.fine : w.wrong(errors, findings.length - errors)}
        </p>
        <ul className="findings">
          {findings.map((f, i) => (
            <li key={i} data-severity={f.severity}>
              <button type="button" disabled={!changed} onClick={() => setGoTo({ line: f.line, column: f.column })}>
                <Icon name="warn" />
                <span>
                  <span className="seen-by-readers">{w.severity[f.severity]}: </span>
                  {f.key && <code>{f.key}</code>} {f.message}
                  {f.instead && <span className="instead">{f.instead}</span>}
                  <span className="hint">{w.at(f.line, f.column)}</span>
                </span>
              </button>
            </li>
          ))}
        </ul>
        {checked && (
          <>
            <h2>{w.means}</h2>
            <dl className="means">
              {checked.explain.map((l, i) => (
                <div key={i}>
                  <dt>{l.what}</dt>
                  <dd>{l.says}</dd>
                </div>
              ))}
            </dl>
          </>
        )}
      </aside>
    </div>
  );
}
