import { memo } from "react";
import { Icon } from "../parts/Icon";
import { Path } from "../parts/Path";
import { words } from "../words";
import { Hunks, type Said } from "./Hunks";
import type { FileDiff } from "./parse";
import type { Viewed } from "./viewed";
import { shownName } from "../parts/clip";

const w = words.changes;

/** The changes of one file. */
export const FileChanges = memo(function FileChanges({ file, split, said, collapsed = false, viewed = false, acts }: { file: FileDiff; split: boolean; said?: Said; collapsed?: boolean; viewed?: boolean; acts?: Pick<Viewed, "view" | "fold"> }) {
  return (
    <section className="card file" id={`file-${file.path}`} aria-label={shownName(file.path)}>
      <header>
        {acts ? (
          <button type="button" className="button quiet square small" aria-expanded={!collapsed} aria-label={w.fold(shownName(file.path))} onClick={() => acts.fold(file.path)}>
            <Icon name={collapsed ? "right" : "down"} />
          </button>
        ) : (
          <Icon name="file" />
        )}
        <h2 className="mono grow file-title">
          {file.from && (
            <>
              <Path path={file.from} /> →{" "}
            </>
          )}
          <Path path={file.path} />
        </h2>
        {w.status[file.status] && <span className="badge">{w.status[file.status]}</span>}
        <Counts file={file} />
        {acts && (
          <label className="row small muted viewed">
            <input type="checkbox" checked={viewed} onChange={(e) => acts.view(file, e.target.checked)} aria-label={w.viewedOf(shownName(file.path))} /> <span aria-hidden="true">{w.viewed}</span>
          </label>
        )}
      </header>
      {collapsed ? null : file.binary ? <p className="muted small diff-note">{w.binary}</p> : <Hunks file={file} split={split} said={said} />}
    </section>
  );
});

export function Counts({ file }: { file: Pick<FileDiff, "added" | "removed"> }) {
  return (
    <span className="counts small">
      <span className="plus">+{file.added}</span> <span className="minus">−{file.removed}</span>
    </span>
  );
}
