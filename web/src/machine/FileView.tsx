import { lazy, Suspense, useCallback, useEffect, useRef, useState } from "react";
import type { Failure } from "../api/transport";
import { asFailure, offline, useClient } from "../api/use";
import { sizeOf } from "../few";
import { Icon } from "../parts/Icon";
import { Empty, Failed, Loading, Problem } from "../parts/State";
import { words } from "../words";
import { shownName } from "../parts/clip";
import { Path } from "../parts/Path";
import { keep, keptOf, mostPicture, mostText, pictureOf, textOf } from "./text";


const Editor = lazy(() => import("./Editor"));
const w = words.files;

type Seen =
  | { is: "loading" }
  | { is: "failed"; failure: Failure }
  | { is: "text"; text: string; round: number }
  | { is: "picture"; url: string }
  | { is: "binary" | "large"; size: number };

type Props = { agent: string; path: string; size: number | undefined; revision: number; close: () => void; written: () => void };

/** One file of a machine. Unsaved changes survive a reload. */
export function FileView({ agent, path, size, revision, close, written }: Props) {
  const client = useClient();
  const [seen, setSeen] = useState<Seen>({ is: "loading" });
  const [state, setState] = useState<"" | "dirty" | "restored" | "saving" | "saved">("");
  const [clash, setClash] = useState<"changed" | "gone">();
  const [problem, setProblem] = useState("");
  const tag = useRef(""); // entity tag of the file that was read, which is also the last known one in the machine
  const text = useRef(""); // the current text
  const round = useRef(0);
  const over = useRef(false);
  const picture = useRef("");
  const dirty = state === "dirty" || state === "restored" || state === "saving";
  const isDirty = useRef(dirty);
  isDirty.current = dirty;

  const length = useRef(size);
  length.current = size;
  const there = useRef(false); // the file has been read and can be reloaded
  const show = useCallback((now: Seen) => {
    there.current = now.is !== "loading" && now.is !== "large";
    URL.revokeObjectURL(picture.current);
    picture.current = now.is === "picture" ? now.url : "";
    setSeen(now);
  }, []);

  /** Reads the file. It keeps unsaved changes, unless they should be dropped. */
  const load = useCallback(
    async (how: "first" | "look" | "drop") => {
      const type = pictureOf(path);
      const size = length.current;
      if (how === "look" && !there.current) return;
      if (how === "first" && size !== undefined && size > (type ? mostPicture : mostText)) return show({ is: "large", size });
      try {
        const got = await client.readFile(agent, path);
        if (over.current) return;
        offline.set(false);
        if (how === "look" && got.tag === tag.current) return;
        if (how === "look" && isDirty.current) return setClash("changed");
        setClash(undefined);
        setProblem("");
        tag.current = got.tag;
        if (type) return show({ is: "picture", url: URL.createObjectURL(new Blob([got.bytes], { type })) });
        const read = got.bytes.length > mostText ? undefined : textOf(got.bytes);
        if (read === undefined) return show({ is: got.bytes.length > mostText ? "large" : "binary", size: got.bytes.length });
        if (how === "drop") keep(agent, path, undefined);
        const unsaved = how === "first" ? keptOf(agent, path) : undefined;
        tag.current = unsaved?.tag ?? got.tag;
        text.current = unsaved?.text ?? read;
        if (unsaved && unsaved.tag !== got.tag) setClash("changed");
        setState(unsaved ? "restored" : "");
        show({ is: "text", text: text.current, round: round.current++ });
      } catch (e) {
        if (over.current) return;
        const failure = asFailure(e);
        offline.set(failure.offline);
        if (failure.code === "file_too_large") return show({ is: "large", size: size ?? 0 });
        const unsaved = how === "first" && failure.status === 404 ? keptOf(agent, path) : undefined;
        if (unsaved) {
          tag.current = unsaved.tag;
          text.current = unsaved.text;
          setState("restored");
          setClash("gone");
          return show({ is: "text", text: unsaved.text, round: round.current++ });
        }
        if (how === "look" && isDirty.current) return failure.status === 404 ? setClash("gone") : undefined;
        if (how !== "look" || failure.status === 404) show({ is: "failed", failure });
      }
    },
    [client, agent, path, show],
  );
  const loaded = useRef(false);
  useEffect(() => {
    over.current = false;
    void load(loaded.current ? "look" : "first");
    loaded.current = true;
  }, [load, revision]);
  useEffect(() => {
    const look = () => document.hidden || void load("look");
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, [load]);
  useEffect(
    () => () => {
      over.current = true;
      URL.revokeObjectURL(picture.current);
    },
    [],
  );
  // Try again if the server cannot be reached.
  const away = seen.is === "failed" && seen.failure.offline;
  useEffect(() => {
    if (!away) return;
    const timer = setInterval(() => void load("first"), 3_000);
    return () => clearInterval(timer);
  }, [away, load]);

  const save = useCallback(
    async (over?: "changed" | "gone") => {
      const mine = text.current;
      setState("saving");
      setProblem("");
      try {
        const now = over === "changed" ? (await client.readFile(agent, path)).tag : over === "gone" ? "" : tag.current;
        const done = await client.writeFile(agent, path, new Blob([mine]), now);
        offline.set(false);
        tag.current = done.sha256;
        setClash(undefined);
        if (text.current === mine) {
          keep(agent, path, undefined);
          setState("saved");
        } else {
          keep(agent, path, { tag: tag.current, text: text.current });
          setState("dirty");
        }
        written();
      } catch (e) {
        const failure = asFailure(e);
        offline.set(failure.offline);
        setState("dirty");
        if (failure.code === "file_changed") {
          const there = await client.readFile(agent, path).then(() => true, (e) => asFailure(e).status !== 404);
          setClash(there ? "changed" : "gone");
        } else if (failure.code === "file_exists") {
          setClash("changed");
        } else {
          setProblem(failure.message);
        }
      }
    },
    [client, agent, path, written],
  );
  const changed = useCallback(
    (now: string) => {
      text.current = now;
      keep(agent, path, { tag: tag.current, text: now });
      setState("dirty");
    },
    [agent, path],
  );

  return (
    <section className="file-view" aria-label={shownName(path)}>
      <header className="file-head">
        <button type="button" className="button quiet square small file-back" aria-label={w.back} onClick={close}>
          <Icon name="left" />
        </button>
        <h2 className="mono grow">
          <Path path={path} />
        </h2>
        <span className="small muted" role="status">
          {state === "saved" ? w.saved : state === "dirty" || state === "restored" ? w.unsaved : ""}
        </span>
        <a className="button quiet square small" href={client.fileURL(agent, path, false)} download aria-label={w.download} title={w.download}>
          <Icon name="download" />
        </a>
        {seen.is === "text" && (
          <button type="button" className="button first small" disabled={!dirty || state === "saving" || clash !== undefined} onClick={() => void save()}>
            {state === "saving" ? w.saving : w.save}
          </button>
        )}
      </header>
      {state === "restored" && !clash && <p className="file-note small muted">{w.restored}</p>}
      {clash && (
        <div className="file-clash">
          <Problem tone="amber">{clash === "gone" ? w.gone : w.changed}</Problem>
          <div className="row">
            <button type="button" className="button small" onClick={() => void save(clash)}>
              {clash === "gone" ? w.restore : w.overwrite}
            </button>
            {clash === "changed" && (
              <button type="button" className="button small" onClick={() => void load("drop")}>
                {w.takeTheirs}
              </button>
            )}
          </div>
        </div>
      )}
      {problem && <Problem>{problem}</Problem>}
      {seen.is === "loading" && <Loading />}
      {seen.is === "failed" && <Failed failure={seen.failure} retry={() => void load("first")} />}
      {seen.is === "text" && (
        <Suspense fallback={<Loading />}>
          <Editor key={seen.round} path={path} text={seen.text} changed={changed} save={() => isDirty.current && !clash && void save()} />
        </Suspense>
      )}
      {seen.is === "picture" && (
        <div className="file-picture">
          <img src={seen.url} alt={w.picture(shownName(path))} />
        </div>
      )}
      {(seen.is === "binary" || seen.is === "large") && (
        <Empty icon="file" title={seen.is === "binary" ? w.binary : w.large}>
          <p>{seen.is === "binary" ? w.binaryLead(sizeOf(seen.size)) : w.largeLead(sizeOf(seen.size), sizeOf(pictureOf(path) ? mostPicture : mostText))}</p>
          <a className="button" href={client.fileURL(agent, path, false)} download>
            <Icon name="download" /> {w.download}
          </a>
        </Empty>
      )}
    </section>
  );
}
