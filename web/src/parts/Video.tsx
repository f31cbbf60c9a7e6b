import { useCallback, useEffect, useState } from "react";
import { asFailure, useClient } from "../api/use";
import { words } from "../words";
import { clipLine, shownName } from "./clip";
import { sizeOf } from "./few";
import { Icon } from "./Icon";
import { Path } from "./Path";
import { Problem } from "./State";

const w = words.artifacts;

/** Whether a browser is asked to play an artifact: what a machine made is played, or is a file, and never a page. */
export const isVideo = (path: string): boolean => /\.(webm|mp4)$/i.test(path);

/** The name of an artifact, without the folder that all of them are in. */
export const nameOf = (path: string): string => shownName(clipLine(path.replace(/^(\/opt\/cursor\/)?artifacts\//, ""), 200));

/** A video that an agent has made, to be played or downloaded. Its address is good for a while: an old one is asked for anew. */
export function Video({ id, path, size }: { id: string; path: string; size?: number | undefined }) {
  const client = useClient();
  const [url, setUrl] = useState("");
  const [problem, setProblem] = useState("");
  const [tries, setTries] = useState(0);
  const ask = useCallback(() => {
    let over = false;
    client.artifact(id, path).then(
      (url) => over || (setUrl(url), setProblem("")),
      (e: unknown) => over || setProblem(asFailure(e).message),
    );
    return () => {
      over = true;
    };
  }, [client, id, path]);
  useEffect(ask, [ask, tries]);
  return (
    <figure className="video">
      <video
        {...(url ? { src: url } : {})} controls preload="metadata" playsInline disableRemotePlayback aria-label={w.video(nameOf(path))}
        onError={() => (tries === 0 ? setTries(1) : setProblem(w.unplayable))}
      />
      <figcaption className="row small">
        <Path path={nameOf(path)} className="mono grow" />
        {size !== undefined && <span className="faint">{sizeOf(size)}</span>}
        <Download id={id} path={path} />
      </figcaption>
      {problem && <Problem>{problem}</Problem>}
    </figure>
  );
}

/** Downloads an artifact, from an address that is asked for when it is wanted. */
export function Download({ id, path }: { id: string; path: string }) {
  const client = useClient();
  const [problem, setProblem] = useState("");
  const fetch = () =>
    client.artifact(id, path).then(
      (url) => {
        const a = document.createElement("a");
        a.href = url;
        a.download = "";
        a.click();
      },
      (e: unknown) => setProblem(asFailure(e).message),
    );
  return (
    <>
      {problem && <span className="bad">{problem}</span>}
      <button type="button" className="button quiet square small" aria-label={w.download(nameOf(path))} title={w.download(nameOf(path))} onClick={() => void fetch()}>
        <Icon name="download" />
      </button>
    </>
  );
}
