import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import type { Entry } from "../journal/fold";
import { Icon } from "../parts/Icon";
import { words } from "../words";
import { FoldContext } from "./folds";
import { Row } from "./Row";

const near = 48; // pixels from the end that count as being there

/** Guesses of heights, until a row is measured. */
const guess = (e: Entry | undefined) => (e?.kind === "text" ? 40 + (e.text.length / 90) * 22 : e?.kind === "call" ? 38 : 44);

/** The entries that are in sight. Whoever is at the end stays there; whoever has scrolled up is left alone. */
export function Conversation({ entries, revision }: { entries: readonly Entry[]; revision: number }) {
  const box = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const [folds] = useState(() => new Map<string, boolean>());
  const atEnd = useRef(true);
  const hands = useRef(0); // when a person last did something that scrolls
  const touched = () => (hands.current = Date.now());
  const [away, setAway] = useState(false);
  const virtual = useVirtualizer({
    count: entries.length,
    getScrollElement: () => box.current,
    estimateSize: (i) => guess(entries[i]),
    getItemKey: (i) => entries[i]?.key ?? i,
    overscan: 8,
    gap: 14,
    paddingStart: 20,
    paddingEnd: 20,
  });
  const toEnd = () => {
    const el = box.current;
    if (el) el.scrollTop = el.scrollHeight;
  };
  useLayoutEffect(() => {
    if (atEnd.current) toEnd();
  }, [revision]);
  useEffect(() => {
    const el = inner.current;
    if (!el) return;
    const watch = new ResizeObserver(() => atEnd.current && toEnd());
    watch.observe(el);
    return () => watch.disconnect();
  }, []);
  return (
    <FoldContext value={folds}>
      <div className="conversation">
        <div
          ref={box} className="scroll" tabIndex={0} role="log" aria-label={words.agent.conversation}
          onScroll={(e) => {
            const el = e.currentTarget;
            if (el.scrollHeight - el.scrollTop - el.clientHeight < near) atEnd.current = true;
            else if (Date.now() - hands.current < 1_000) atEnd.current = false; // and not since more has come
            setAway(!atEnd.current);
          }}
          onWheel={touched} onTouchMove={touched} onPointerDown={touched} onKeyDown={touched}
        >
          <div ref={inner} className="conversation-inner" style={{ height: virtual.getTotalSize() }}>
            {virtual.getVirtualItems().map((v) => {
              const entry = entries[v.index];
              return (
                entry && (
                  <div key={entry.key} ref={virtual.measureElement} data-index={v.index} className="entry" style={{ transform: `translateY(${v.start}px)` }}>
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
