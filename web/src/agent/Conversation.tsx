import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Entry } from "../journal/entry";
import { useWritten, type Follower } from "../journal/follow";
import { Icon } from "../parts/Icon";
import { words } from "../words";
import type { Finding } from "./finding";
import { FoldContext, type Folds } from "./folds";
import { highlight } from "./highlight";
import { Row } from "./Row";
import { useJump } from "./jump";

const near = 48; // distance in pixels from the end that still counts as the end
const ahead = 15; // number of rows left above the first visible one at which earlier entries are fetched

/** Estimates a row's height until the row is measured. */
function guess(e: Entry | undefined): number {
  switch (e?.kind) {
    case "text":
      return 21 * Math.ceil(e.text.length / 110) + 10 * (e.text.split("\n\n", 50).length - 1);
    case "prompt":
      return 86 + 21 * Math.ceil(e.text.length / 100) + (e.images.length > 0 ? 90 : 0);
    case "call":
      return e.call.images.length > 0 ? 200 : 36;
    case "end":
      return 40;
  }
  return 26;
}

/**
 * The visible entries. A view at the end of the conversation stays at the end; a view that is
 * scrolled up does not move.
 */
export function Conversation({ follower, finding }: { follower: Follower; finding: Finding }) {
  const revision = useWritten(follower);
  const { more, older } = follower;
  const entries: readonly Entry[] = follower.transcript.entries;
  const box = useRef<HTMLDivElement>(null);
  const [states] = useState(() => new Map<string, boolean>());
  const { all, target, sight } = finding;
  const searched = finding.open ? finding.text : "";
  const [unfolded, setUnfolded] = useState(0); // increases when a jump has unfolded a row
  const folds = useMemo<Folds>(() => ({ states, all }), [states, all, unfolded]); // eslint-disable-line react-hooks/exhaustive-deps -- a new object renders the rows again
  const foldedAll = useRef(all);
  if (foldedAll.current !== all) {
    foldedAll.current = all;
    states.clear();
  }
  const atEnd = useRef(true);
  const touchedAt = useRef(0); // when a person last scrolled
  const touched = () => (touchedAt.current = Date.now());
  const [pressed, setPressed] = useState(false);
  const [away, setAway] = useState(false);
  const virtual = useVirtualizer({
    count: entries.length,
    getScrollElement: () => box.current,
    estimateSize: (i) => guess(entries[i]),
    getItemKey: useCallback((i: number) => entries[i]?.key ?? i, [entries]), // a new function object would lay out all rows again
    scrollEndThreshold: pressed ? -1 : 1, // -1: nobody is at the end
    anchorTo: "end", // visible rows keep their position when earlier ones are added
    overscan: 12,
    gap: 14,
    paddingStart: more ? 64 : 20,
    paddingEnd: 20,
  });
  const toEnd = () => {
    const el = box.current;
    if (el) el.scrollTop = el.scrollHeight;
  };
  const total = virtual.getTotalSize();
  const height = virtual.scrollRect?.height;
  // Scroll only when the height has changed, not with every letter: scrolling forces a layout.
  useLayoutEffect(() => {
    if (atEnd.current && !pressed) toEnd();
  }, [total, height, pressed]);
  // Scrolling between press and release would move the pressed element away from the pointer, and the browser
  // would report no click.
  useEffect(() => {
    if (!pressed) return;
    const release = (e: PointerEvent) => e.buttons || setTimeout(() => setPressed(false)); // after the click
    const ends = ["pointerup", "pointercancel", "pointermove"] as const; // browsers do not report the release of a scroll bar
    ends.forEach((end) => window.addEventListener(end, release));
    return () => ends.forEach((end) => window.removeEventListener(end, release));
  }, [pressed]);
  // Content above or below may change its height without changing the range of rows.
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const observer = new ResizeObserver(() => atEnd.current && toEnd());
    observer.observe(el);
    return () => observer.disconnect();
  }, []);
  const items = virtual.getVirtualItems();
  sight.current = [virtual.range?.startIndex ?? 0, virtual.range?.endIndex ?? 0];
  useJump({
    box, virtual, entries, target, text: searched,
    leave: () => {
      atEnd.current = false;
      touched();
      setAway(true);
    },
    unfold: (key) => {
      if (states.get(key)) return;
      states.set(key, true);
      setUnfolded((n) => n + 1);
    },
  });
  useEffect(() => highlight(box.current, searched));
  useEffect(() => () => highlight(null, ""), []);
  const soon = (items[0]?.index ?? 0) < ahead;
  const short = height !== undefined && total < 2 * height; // a view that stays at the end needs only enough entries to fill the screen
  useEffect(() => {
    if (more && soon && (away || short)) older();
  }, [more, soon, away, short, older, revision]);
  return (
    <FoldContext value={folds}>
      <div className="conversation">
        <div
          ref={box} className="scroll" tabIndex={0} role="log" aria-label={words.agent.conversation}
          onScroll={(e) => {
            const el = e.currentTarget;
            if (el.scrollHeight - el.scrollTop - el.clientHeight < near) atEnd.current = true;
            else if (Date.now() - touchedAt.current < 1_000) atEnd.current = false; // only a person leaves the end, not new content
            setAway(!atEnd.current);
          }}
          onWheel={touched} onTouchMove={touched} onKeyDown={touched}
          onPointerDown={() => {
            touched();
            setPressed(true);
          }}
        >
          <div className="conversation-inner" style={{ height: total }}>
            {more && (
              <p className="older faint small">
                <Icon name="spinner" spin /> {words.agent.older}
              </p>
            )}
            {items.map((v) => {
              const entry = entries[v.index];
              return (
                entry && (
                  <div key={entry.key} ref={virtual.measureElement} data-index={v.index} className="entry" tabIndex={target?.key === entry.key ? -1 : undefined} data-target={target?.key === entry.key ? "" : undefined} style={{ transform: `translateY(${v.start}px)` }}>
                    <Row entry={entry} rev={entry.rev} />
                  </div>
                )
              );
            })}
          </div>
        </div>
        {away && (
          <button
            type="button" className="button newest"
            onClick={() => {
              atEnd.current = true;
              virtual.scrollToIndex(entries.length - 1, { align: "end" });
              toEnd();
            }}
          >
            <Icon name="bottom" /> {words.agent.newest}
          </button>
        )}
      </div>
    </FoldContext>
  );
}
