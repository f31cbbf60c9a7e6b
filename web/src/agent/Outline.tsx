import type { Entry } from "../journal/entry";
import { Dialog } from "../parts/Dialog";
import { Icon, type IconName } from "../parts/Icon";
import { shownLine } from "../parts/clip";
import { toolOf } from "../tools";
import { words } from "../words";
import { hasFailed } from "./find";

const w = words.agent;

type Item = { index: number; text: string; icon: IconName; kind: "prompt" | "turn" | "failure" | "end" };

const firstLine = (text: string) => shownLine(text.trimStart().split("\n", 1)[0] ?? "", 160);

/** itemsOf returns the outline of a conversation: its prompts, the first words of each turn, failures and ends. */
export function itemsOf(entries: readonly Entry[]): Item[] {
  const out: Item[] = [];
  let told = false; // whether the outline has an item for the turn
  entries.forEach((e, index) => {
    switch (e.kind) {
      case "prompt":
        out.push({ index, text: firstLine(e.text), icon: "comment", kind: "prompt" });
        told = false;
        break;
      case "turn":
        told = false;
        break;
      case "text":
        if (!told && e.text.trim()) out.push({ index, text: firstLine(e.text.replace(/^[#>*\s]+|\*\*|`/g, "")), icon: "right", kind: "turn" });
        told = true;
        break;
      case "end":
        out.push({ index, text: w.ended[e.status] ?? e.status, icon: hasFailed(e) ? "warn" : "check", kind: hasFailed(e) ? "failure" : "end" });
        break;
      case "call":
        if (hasFailed(e)) out.push({ index, text: `${shownLine(e.call.name, 60)} ${shownLine(toolOf(e.call.name).subject(e.call), 120)}`, icon: "warn", kind: "failure" });
        break;
      case "note":
        if (hasFailed(e)) out.push({ index, text: w.note[e.about], icon: "warn", kind: "failure" });
        break;
    }
  });
  return out;
}

/** The outline of a conversation. A click on an item scrolls to its entry. */
export default function Outline({ entries, more, choose, close }: { entries: readonly Entry[]; more: boolean; choose: (index: number) => void; close: () => void }) {
  const items = itemsOf(entries);
  return (
    <Dialog title={w.find.outline} close={close} className="outline">
      <div className="body">
        {more && (
          <p className="small muted" role="status">
            <Icon name="spinner" spin /> {w.older}
          </p>
        )}
        {items.length === 0 && <p className="muted">{w.empty}</p>}
        <ol>
          {items.map((item) => (
            <li key={entries[item.index]?.key ?? item.index} data-kind={item.kind}>
              <button type="button" onClick={() => choose(item.index)}>
                <Icon name={item.icon} />
                <span className="cut grow" dir="auto">
                  {item.text}
                </span>
              </button>
            </li>
          ))}
        </ol>
      </div>
    </Dialog>
  );
}
