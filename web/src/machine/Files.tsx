import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Agent } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { parseDiff } from "../changes/parse";
import { Icon, type IconName } from "../parts/Icon";
import { Empty, Problem } from "../parts/State";
import { toast } from "../parts/toast";
import { words } from "../words";
import { shownName } from "../parts/clip";
import { FileView } from "./FileView";
import { FileDialog, type Asked } from "./FileDialog";
import { Inside } from "./Inside";
import { keep, keptOf, wouldLose } from "./text";
import { Tree, type Mark } from "./Tree";
import { folderOf, joined, nameOf, root, rowsOf, type Row } from "./tree";
import { dropped, type Upload } from "./upload";
import { useTree } from "./useTree";

const w = words.files;

/** The files of an agent's machine. */
export default function Files({ agent, revision }: { agent: Agent; revision: number }) {
  return <div className="machine-files">{<Inside agent={agent}>{() => <Browser id={agent.id} revision={revision} />}</Inside>}</div>;
}

const inAddress = () => new URLSearchParams(location.search).get("file") ?? "";

/** Puts the open file into the URL, so that a reload opens it again. */
function address(path: string): void {
  const url = new URL(location.href);
  path ? url.searchParams.set("file", path) : url.searchParams.delete("file");
  history.replaceState(history.state, "", url);
}

function Browser({ id, revision }: { id: string; revision: number }) {
  const client = useClient();
  const [file, setFile] = useState(inAddress);
  const [at, setAt] = useState(file);
  const { folders, open, set, reveal, load, refresh } = useTree(id, revision, file);
  const [asked, ask] = useState<Asked>();
  const [sending, setSending] = useState<{ what: string; share: number; stop: () => void }>();
  const [replace, setReplace] = useState<{ path: string; answer: (yes: boolean) => void }>();
  const field = useRef<HTMLInputElement>(null);
  const rows = useMemo(() => rowsOf(folders, open), [folders, open]);
  const { data: diff } = useLoad(() => client.diff(id), [id, revision]);
  const marks = useMemo(() => marksOf(diff?.diff ?? ""), [diff]);
  const row = rows.find((r) => r.path === at && r.entry);
  const folder = row?.entry?.type === "folder" ? row.path : at ? folderOf(at) : root;

  useEffect(() => {
    const hold = (e: BeforeUnloadEvent) => (sending || wouldLose()) && e.preventDefault();
    addEventListener("beforeunload", hold);
    return () => removeEventListener("beforeunload", hold);
  }, [sending]);
  const openFile = useCallback((path: string) => {
    setFile(path);
    setAt(path);
    address(path);
  }, []);
  const closeFile = () => {
    setFile("");
    address("");
  };
  const select = (r: Row) => (r.entry?.type === "file" ? openFile(r.path) : setAt(r.path));
  const written = useCallback(() => void load(folderOf(file)), [load, file]);

  const isThere = (path: string) =>
    client.files(id, folderOf(path)).then(
      ({ items }) => items.some((e) => e.name === nameOf(path)),
      (e: unknown) => {
        if (asFailure(e).status === 404) return false; // the folder comes with the file
        throw e;
      },
    );
  const upload = async (into: string, files: Upload[]) => {
    let done = 0;
    const stopped = new AbortController();
    for (const [n, { path, file }] of files.entries()) {
      const to = joined(into, path);
      const tell = (share: number) => setSending({ what: w.uploading(shownName(path), n + 1, files.length), share, stop: () => stopped.abort() });
      tell(0);
      try {
        const over = await isThere(to); // asked before all of it is sent
        if (over && !(await new Promise<boolean>((answer) => setReplace({ path: to, answer })).finally(() => setReplace(undefined)))) continue;
        await client.upload(id, to, file, over, tell, stopped.signal);
        done++;
      } catch (e) {
        if (stopped.signal.aborted) break;
        toast(w.uploadFailed(shownName(path), asFailure(e).message), true);
      }
    }
    setSending(undefined);
    if (done > 0) toast(w.uploaded(done));
    if (into !== root) set(into, true);
    await refresh();
  };
  const drop = (into: string, data: DataTransfer) => {
    dropped(data).then(
      (files) => upload(into, files),
      (e: unknown) => toast(asFailure(e).message, true),
    );
  };
  const finished = (path: string) => {
    const was = asked;
    ask(undefined);
    if (was?.what === "remove" || was?.what === "move") {
      for (const p of [file, was.path]) {
        if (p !== was.path && !p.startsWith(`${was.path}/`)) continue;
        const unsaved = keptOf(id, p);
        keep(id, p, undefined);
        if (was.what === "move" && unsaved) keep(id, path + p.slice(was.path.length), unsaved);
        if (p === file) openFile(was.what === "move" ? path + p.slice(was.path.length) : "");
      }
    }
    if (was?.what === "file") openFile(path);
    if (was?.what !== "remove") {
      setAt(path);
      reveal(path);
    } else {
      setAt("");
    }
    void refresh();
  };
  const first = folders.get(root);
  return (
    <>
      <section className="file-tree" aria-label={w.title} data-behind={file ? "" : undefined}>
        <div className="file-tools" role="toolbar" aria-label={w.tools}>
          <Tool icon="newFile" name={w.newFile} act={() => ask({ what: "file", path: folder })} />
          <Tool icon="newFolder" name={w.newFolder} act={() => ask({ what: "folder", path: folder })} />
          <Tool icon="upload" name={w.upload} act={() => field.current?.click()} />
          <a className="button quiet square small" href={client.fileURL(id, folder, true)} download aria-label={folder === root ? w.downloadAll : w.downloadFolder} title={folder === root ? w.downloadAll : w.downloadFolder}>
            <Icon name="download" />
          </a>
          <span className="grow" />
          <Tool icon="edit" name={w.rename} off={!row} act={() => row && ask({ what: "move", path: row.path })} />
          <Tool icon="trash" name={w.remove} off={!row} act={() => row && ask({ what: "remove", path: row.path, folder: row.entry?.type === "folder" && !row.entry.link })} />
          <Tool icon="refresh" name={w.refresh} act={() => void refresh()} />
          <input
            ref={field} type="file" multiple hidden
            onChange={(e) => {
              const files = [...(e.target.files ?? [])].map((file) => ({ path: file.name, file }));
              e.target.value = "";
              void upload(folder, files);
            }}
          />
        </div>
        {first?.failure && !first.items ? (
          <div className="file-note">
            <Problem>{first.failure}</Problem>
          </div>
        ) : (
          <Tree
            rows={rows} at={at} marks={marks} unsaved={(path) => keptOf(id, path) !== undefined} select={select} toggle={(r, to) => set(r.path, to)} drop={drop}
            act={(what, r) => ask(what === "move" ? { what, path: r.path } : { what, path: r.path, folder: r.entry?.type === "folder" && !r.entry.link })}
          />
        )}
        {sending && (
          <div className="file-sending small">
            <span className="cut" role="status">{sending.what}</span>
            <progress value={sending.share} aria-label={sending.what} />
            <button type="button" className="button quiet small" onClick={sending.stop}>
              {w.stop}
            </button>
          </div>
        )}
      </section>
      {file ? (
        <FileView key={file} agent={id} path={file} size={rows.find((r) => r.path === file)?.entry?.sizeBytes} revision={revision} close={closeFile} written={written} />
      ) : (
        <div className="file-view file-none">
          {first?.items?.length === 0 ? (
            <Empty icon="folder" title={w.emptyTitle}>
              <p>{w.emptyLead}</p>
            </Empty>
          ) : (
            <Empty icon="file" title={w.pick}>
              <p>{w.pickLead}</p>
            </Empty>
          )}
        </div>
      )}
      {asked && <FileDialog id={id} asked={asked} unsaved={keptOf(id, asked.path) !== undefined} close={() => ask(undefined)} done={finished} />}
      {replace && <FileDialog id={id} asked={{ what: "replace", path: replace.path }} unsaved={false} close={() => replace.answer(false)} done={() => replace.answer(true)} />}
    </>
  );
}

function Tool({ icon, name, act, off = false }: { icon: IconName; name: string; act: () => void; off?: boolean }) {
  return (
    <button type="button" className="button quiet square small" aria-label={name} title={name} disabled={off} onClick={act}>
      <Icon name={icon} />
    </button>
  );
}

/** The branch's changes to files, and the folders that contain them. */
function marksOf(diff: string): ReadonlyMap<string, Mark> {
  const marks = new Map<string, Mark>();
  for (const f of parseDiff(diff)) {
    if (f.status === "deleted") continue;
    marks.set(f.path, f.status);
    for (let up = folderOf(f.path); up !== root && up !== ""; up = folderOf(up)) marks.set(up, "inside");
  }
  return marks;
}
