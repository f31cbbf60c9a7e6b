import { useMemo } from "react";
import type { Entry } from "../journal/entry";
import { Path } from "../parts/Path";
import { words } from "../words";
import { Counts } from "./File";
import { Hunks, type Said } from "./Hunks";
import type { FileDiff } from "./parse";
import { turnsOf } from "./turns";

const w = words.changes;

/** The edits of each turn, newest first. */
export function ByTurn({ entries, revision, split, said, more, older }: { entries: readonly Entry[]; revision: number; split: boolean; said: Said; more: boolean; older: () => void }) {
  // eslint-disable-next-line react-hooks/exhaustive-deps -- entries are changed in place; the revision changes with them
  const turns = useMemo(() => turnsOf(entries).reverse(), [entries, revision]);
  return (
    <div className="scroll files">
      <p className="muted small">{w.turnsLead}</p>
      {turns.length === 0 && <p className="muted">{w.noTurns}</p>}
      {turns.map((t) => (
        <section key={t.key} className="card file" aria-label={w.turn(t.no)}>
          <header>
            <h2 className="grow">{w.turn(t.no)}</h2>
            {t.replaced && <span className="badge">{w.replaced}</span>}
          </header>
          {t.files.map((f, i) => (
            <div key={i}>
              <div className="turn-file">
                <Path path={f.path} className="mono grow" />
                <Counts file={f} />
              </div>
              <OfTurn file={f} split={split} said={said} turn={t.no} />
            </div>
          ))}
          {t.commands > 0 && <p className="muted small diff-note">{w.commands(t.commands)}</p>}
        </section>
      ))}
      {more && (
        <button type="button" className="button" onClick={older}>
          {w.earlier}
        </button>
      )}
    </div>
  );
}

function OfTurn({ file, split, said, turn }: { file: FileDiff; split: boolean; said: Said; turn: number }) {
  const mine = useMemo(() => ({ ...said, turn, comments: said.comments.filter((c) => c.turn === turn && c.path === file.path) }), [said, turn, file]);
  return <Hunks file={file} split={split} said={mine} />;
}
