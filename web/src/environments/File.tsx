import { useEffect, useRef, useState } from "react";
import type { EnvironmentDetail } from "../api/types";
import { asFailure, useClient } from "../api/use";
import { useDraft } from "../parts/draft";
import { Problem } from "../parts/State";
import { toast } from "../parts/toast";
import { words } from "../words";
import { EnvironmentText } from "./Text";

const w = words.environments;

/** The editor of an environment's file. Unsaved text survives a reload of this tab. */
export function File({ of, may, reload }: { of: EnvironmentDetail; may: boolean; reload: () => void }) {
  const client = useClient();
  const [draft, setDraft, clear] = useDraft<{ text: string; version: string } | null>(`environment.${of.id}`, null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [round, setRound] = useState(0);
  const shown = useRef(draft?.text ?? of.environmentJson); // the text in the editor
  const dirty = draft !== null && draft.text !== of.environmentJson;
  const clash = dirty && draft.version !== of.versionId;
  useEffect(() => {
    if (draft && !dirty) clear(); // the text was saved or the edit undone
    if (dirty || shown.current === of.environmentJson) return;
    shown.current = of.environmentJson; // another person has changed the file
    setRound((n) => n + 1);
  }, [draft, dirty, clear, of.environmentJson]);
  const changed = (text: string) => {
    shown.current = text;
    setDraft((old) => ({ text, version: old?.version ?? of.versionId }));
  };
  const save = async () => {
    if (!dirty || busy) return;
    setBusy(true);
    setProblem("");
    try {
      await client.updateEnvironment(of.id, { environmentJson: draft.text, versionId: of.versionId });
      toast(w.saved);
    } catch (e) {
      setProblem(asFailure(e).message);
    }
    setBusy(false);
    reload();
  };
  const now = useRef(save);
  now.current = save;
  const discard = () => {
    if (!confirm(w.discardSure)) return;
    setProblem("");
    clear();
  };
  return (
    <>
      <div className="agents-tools">
        {may ? (
          <>
            <button type="button" className="button first" disabled={!dirty || busy || clash} onClick={() => void save()}>
              {w.save}
            </button>
            {dirty && (
              <button type="button" className="button" onClick={discard}>
                {w.discard}
              </button>
            )}
            <span className={dirty ? "small faint" : "small faint wide-hint"}>{dirty ? w.draft : w.keys}</span>
          </>
        ) : (
          <span className="small muted">{w.readOnly}</span>
        )}
      </div>
      {problem && (
        <div className="env-problem">
          <Problem>{problem}</Problem>
        </div>
      )}
      {clash && (
        <div className="env-problem">
          <Problem tone="amber">
            {w.changedMeanwhile}{" "}
            <button type="button" className="button small" disabled={busy} onClick={() => void save()}>
              {w.saveOver}
            </button>{" "}
            <button type="button" className="button small" onClick={discard}>
              {w.seeTheirs}
            </button>
          </Problem>
        </div>
      )}
      <EnvironmentText key={round} text={dirty ? draft.text : of.environmentJson} first={shown.current} changed={may ? changed : undefined} save={() => void now.current()} />
    </>
  );
}
