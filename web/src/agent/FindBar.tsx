import { lazy, Suspense, useEffect, useRef, useState } from "react";
import type { Follower } from "../journal/follow";
import { keyName, useKey } from "../keys";
import { Icon } from "../parts/Icon";
import { words } from "../words";
import type { Finding } from "./finding";

const Outline = lazy(() => import("./Outline"));
const w = words.agent.find;

/** The tools of a conversation: failures, outline, folding and search. */
export function FindTools({ finding: f, follower }: { finding: Finding; follower: Follower }) {
  const [outlining, setOutlining] = useState(false);
  const outline = (on: boolean) => {
    setOutlining(on);
    f.loadAll(on);
  };
  useKey("o", () => outline(true));
  return (
    <div className="talk-tools" role="toolbar" aria-label={w.tools}>
      <div className="talk-more">
        {f.failures.length > 0 && (
          <span className="row failures">
            <span className="small bad">{w.failures(f.failures.length)}</span>
            <button type="button" className="button quiet square small" aria-label={w.failureBefore} title={`${w.failureBefore} (f)`} onClick={() => f.step("failure", true)}>
              <Icon name="up" />
            </button>
            <button type="button" className="button quiet square small" aria-label={w.failureAfter} title={`${w.failureAfter} (Shift F)`} onClick={() => f.step("failure", false)}>
              <Icon name="down" />
            </button>
          </span>
        )}
        <button type="button" className="button quiet small" title={`${w.outline} (o)`} onClick={() => outline(true)}>
          <Icon name="list" /> {w.outline}
        </button>
        <button type="button" className="button quiet small" aria-pressed={f.all === false} title={`${w.fold} (c)`} onClick={f.foldAll}>
          <Icon name="right" /> {w.fold}
        </button>
      </div>
      <button type="button" className="button quiet small" aria-expanded={f.open} aria-label={w.search} title={`${w.search} (/, ${keyName("mod+f")})`} onClick={() => f.setOpen(!f.open)}>
        <Icon name="search" />
        <span className="act-name">{w.searchShort}</span>
      </button>
      {outlining && (
        <Suspense>
          <Outline
            entries={follower.transcript.entries} more={follower.more} close={() => outline(false)}
            choose={(index) => {
              outline(false);
              setTimeout(() => f.jump(index)); // after the dialog has returned the focus
            }}
          />
        </Suspense>
      )}
    </div>
  );
}

/** The search field of a conversation. */
export function FindBar({ finding: f, more }: { finding: Finding; more: boolean }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.select(), []);
  const close = () => {
    f.setOpen(false);
    document.querySelector<HTMLElement>(".conversation > .scroll")?.focus();
  };
  const searching = f.text.trim() !== "";
  return (
    <div className="find-bar" role="search">
      <div className="search">
        <Icon name="search" />
        <input
          ref={field} className="input" type="search" autoFocus value={f.text} aria-label={w.search} placeholder={w.search} spellCheck={false} autoComplete="off"
          onChange={(e) => f.setText(e.target.value)}
          onKeyDown={(e) => {
            if (e.key === "Escape") close();
            else if (e.key === "Enter") f.step("hit", !e.shiftKey);
            else return;
            e.preventDefault();
          }}
        />
      </div>
      <span className="small muted found-count" role="status">
        {searching && (more ? w.searching(f.hits.length) : f.hit >= 0 ? w.hit(f.hit + 1, f.hits.length) : w.hits(f.hits.length))}
      </span>
      <button type="button" className="button quiet square small" aria-label={w.before} title={`${w.before} (↵)`} disabled={f.hits.length === 0} onClick={() => f.step("hit", true)}>
        <Icon name="up" />
      </button>
      <button type="button" className="button quiet square small" aria-label={w.after} title={`${w.after} (Shift ↵)`} disabled={f.hits.length === 0} onClick={() => f.step("hit", false)}>
        <Icon name="down" />
      </button>
      <button type="button" className="button quiet square small" aria-label={w.close} onClick={close}>
        <Icon name="close" />
      </button>
    </div>
  );
}
