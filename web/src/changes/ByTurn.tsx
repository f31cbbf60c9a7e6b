import { useMemo } from "react";
import type { Entry } from "../journal/fold";
import { words } from "../words";
import { Counts } from "./File";
import { SmallDiff } from "./Lines";
import { turnsOf } from "./turns";

const w = words.changes;
const most = 100; // turns that are shown, the newest

/** What each turn has edited, the newest first. */
export function ByTurn({ entries, revision }: { entries: readonly Entry[]; revision: number }) {
  // eslint-disable-next-line react-hooks/exhaustive-deps -- entries are changed in place; the revision says when
  const turns = useMemo(() => turnsOf(entries).reverse().slice(0, most), [entries, revision]);
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
                <span className="mono cut grow" dir="ltr" title={f.path}>
                  {f.path}
                </span>
                <Counts file={f} />
              </div>
              <SmallDiff file={f} />
            </div>
          ))}
          {t.commands > 0 && <p className="muted small diff-note">{w.commands(t.commands)}</p>}
        </section>
      ))}
    </div>
  );
}
