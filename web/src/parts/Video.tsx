import { useCallback, useEffect, useState } from "react";
import { asFailure, useClient } from "../api/use";
import { words } from "../words";
import { clipLine, shownName } from "./clip";
import { sizeOf } from "../few";
import { Icon } from "./Icon";
import { Path } from "./Path";
import { Problem } from "./State";

const w = words.artifacts;

/** Whether the browser may play an artifact. Anything else is offered as a download and never opened as a page. */
export const isVideo = (path: string): boolean => /\.(webm|mp4)$/i.test(path);

/** An artifact's name without the common folder. */
export const nameOf = (path: string): string => shownName(clipLine(path.replace(/^(\/opt\/cursor\/)?artifacts\//, ""), 200));

/** An agent's video, to play or download. Its address expires; an expired one is requested again. */
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

/** Downloads an artifact; its address is requested on the click. */
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
