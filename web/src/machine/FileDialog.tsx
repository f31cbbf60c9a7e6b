import { useState, type FormEvent } from "react";
import { asFailure, useClient } from "../api/use";
import { Dialog } from "../parts/Dialog";
import { Problem } from "../parts/State";
import { words } from "../words";
import { shownName } from "../parts/clip";
import { root, tidied } from "./tree";

const w = words.files;

/** The action to perform: in a folder, or on a path. */
export type Asked = { what: "file" | "folder" | "move" | "replace"; path: string } | { what: "remove"; path: string; folder: boolean };

const titles = { file: w.newFile, folder: w.newFolder, move: w.rename };

/** The dialog of an operation on a file: asks for its input and runs it. */
export function FileDialog({ id, asked, unsaved, close, done }: { id: string; asked: Asked; unsaved: boolean; close: () => void; done: (path: string) => void }) {
  const client = useClient();
  const { what, path } = asked;
  const [name, setName] = useState(what === "move" ? path : path === root ? "" : `${path}/`);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const sure = what === "remove" || what === "replace";
  const to = tidied(name);
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    if (what === "replace") return done(path);
    if (what === "move" && to === path) return close();
    setBusy(true);
    try {
      if (what === "file") await client.writeFile(id, to, new Blob([]), "");
      if (what === "folder") await client.createFolder(id, to);
      if (what === "move") await client.moveFile(id, path, to);
      if (what === "remove") await client.deleteFile(id, path);
      done(to);
    } catch (e) {
      setProblem(asFailure(e).message);
      setBusy(false);
    }
  };
  const title = what === "remove" ? (asked.folder ? w.sureFolder : w.sureFile)(shownName(path)) : what === "replace" ? w.replaceTitle(shownName(path)) : titles[what];
  return (
    <Dialog title={title} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <div className="body">
          {what === "remove" && (
            <p>
              {w.sureLead} {unsaved && w.lostEdits}
            </p>
          )}
          {what === "replace" && <p>{w.replaceLead}</p>}
          {!sure && (
            <div className="field">
              <label htmlFor="file-path">{w.path}</label>
              <input id="file-path" className="input mono" dir="ltr" autoComplete="off" spellCheck={false} maxLength={4096} value={name} onChange={(e) => setName(e.target.value)} />
              <span className="hint">{w.pathHint}</span>
            </div>
          )}
          {problem && <Problem>{problem}</Problem>}
        </div>
        <footer>
          <span className="grow" />
          <button type="button" className="button quiet" onClick={close}>
            {what === "replace" ? w.skip : w.cancel}
          </button>
          <button type="submit" className={sure ? "button danger" : "button first"} disabled={busy || (!sure && !to)}>
            {what === "remove" ? w.remove : what === "replace" ? w.replace : what === "move" ? w.move : w.create}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
