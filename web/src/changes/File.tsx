import { memo } from "react";
import { Icon } from "../parts/Icon";
import { Path } from "../parts/Path";
import { words } from "../words";
import { Hunks, type Said } from "./Hunks";
import type { FileDiff } from "./parse";

const w = words.changes;

/** The changes of one file. */
export const FileChanges = memo(function FileChanges({ file, split, said }: { file: FileDiff; split: boolean; said?: Said }) {
  return (
    <section className="card file" id={`file-${file.path}`} aria-label={file.path}>
      <header>
        <Icon name="file" />
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
      </header>
      {file.binary ? <p className="muted small diff-note">{w.binary}</p> : <Hunks file={file} split={split} said={said} />}
    </section>
  );
});

export function Counts({ file }: { file: FileDiff }) {
  return (
    <span className="counts small">
      <span className="plus">+{file.added}</span> <span className="minus">−{file.removed}</span>
    </span>
  );
}
