import { useState } from "react";
import { words } from "../words";

const w = words.changes;
const wide = 1500; // minimum width in pixels for a side-by-side view
const place = "aloft.diff";

/** Whether diffs are shown side by side. The setting is stored in this browser. */
export function useSplit(): [boolean, (now: boolean) => void] {
  const [split, setSplit] = useState(() => {
    const said = localStorage.getItem(place);
    return said ? said === "split" : innerWidth >= wide;
  });
  return [
    split,
    (now) => {
      localStorage.setItem(place, now ? "split" : "inline");
      setSplit(now);
    },
  ];
}

/** A switch between the two views of diffs. */
export function SplitPick({ split, set }: { split: boolean; set: (now: boolean) => void }) {
  return (
    <div className="pick" role="group" aria-label={w.view}>
      <button type="button" aria-pressed={!split} onClick={() => set(false)}>
        {w.inline}
      </button>
      <button type="button" aria-pressed={split} onClick={() => set(true)}>
        {w.split}
      </button>
    </div>
  );
}
