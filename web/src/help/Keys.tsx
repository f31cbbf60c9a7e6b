import { useState } from "react";
import { Dialog } from "../parts/Dialog";
import { Signal } from "../signal";
import { keyName, singleKeys, useKey } from "../keys";
import { words } from "../words";

const w = words.keys;
export const keySheetOpen = new Signal(false);

const all: [title: string, keys: [keys: string[], does: string][]][] = [
  [w.anywhere, [[[keyName("mod+e")], words.agents.spawn], [[keyName("mod+k")], w.palette], [["?"], w.title], [["Esc"], w.close], [[`${keyName("mod+")}↵`], w.send]]],
  [w.agent, [[["1", "…", "4"], w.tabs], [["g", "a"], w.back], [["/", keyName("mod+f")], words.agent.find.search], [["o"], words.agent.find.outline], [["j"], w.nextTurn], [["k"], w.previousTurn], [["f"], words.agent.find.failureBefore], [["F"], words.agent.find.failureAfter], [["c"], words.agent.find.fold], [["r"], w.retry]]],
  [w.list, [[["/"], words.agents.searchShort], [["f"], words.agents.more], [["j", "↓"], w.next], [["k", "↑"], w.previous], [["↵"], w.open], [["x"], w.select], [["s"], w.stop], [["e"], w.archive], [["y"], w.allow], [["n"], w.deny]]],
];

/** The list of keyboard shortcuts, which the key ? opens. */
export function KeySheet() {
  const open = keySheetOpen.use();
  useKey("?", () => keySheetOpen.set(true));
  return open ? <Sheet /> : null;
}

function Sheet() {
  const [single, setSingle] = useState(singleKeys());
  return (
    <Dialog title={w.title} close={() => keySheetOpen.set(false)} className="keys">
      <div className="body">
        {all.map(([title, keys]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {keys.map(([names, does]) => (
                <div key={does}>
                  <dt>{does}</dt>
                  <dd>
                    {names.map((name) => (
                      <kbd key={name}>{name}</kbd>
                    ))}
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
        <label className="switch">
          <input
            type="checkbox" checked={single}
            onChange={(e) => {
              singleKeys(e.target.checked);
              setSingle(e.target.checked);
            }}
          />
          <span>
            {w.single}
            <span className="hint">{w.singleHint}</span>
          </span>
        </label>
      </div>
    </Dialog>
  );
}
