import { useState } from "react";
import { useClient, useLoad } from "../api/use";
import { sizeOf } from "../few";
import { Icon } from "../parts/Icon";
import { Path } from "../parts/Path";
import { Download, isVideo, nameOf, Video } from "../parts/Video";
import { words } from "../words";

const w = words.artifacts;
const first = 12; // number of artifacts shown before the user asks for more
const step = 100;

/** The agent's artifacts; recordings can be played. Renders nothing if there are none. */
export function Artifacts({ id }: { id: string }) {
  const client = useClient();
  const { data } = useLoad(() => client.artifacts(id), [id]);
  const [most, setMost] = useState(first);
  const [playing, play] = useState("");
  const all = data?.items ?? [];
  if (all.length === 0) return null;
  return (
    <section className="stack">
      <h2>{w.title}</h2>
      <p className="small muted">{w.lead}</p>
      {all.slice(0, most).map((a) =>
        playing === a.path ? (
          <Video key={a.path} id={id} path={a.path} size={a.sizeBytes} />
        ) : (
          <div key={a.path} className="way artifact">
            <Path path={nameOf(a.path)} className="grow" />
            <span className="small faint">{sizeOf(a.sizeBytes)}</span>
            {isVideo(a.path) && (
              <button type="button" className="button quiet square small" aria-label={w.play(nameOf(a.path))} title={w.play(nameOf(a.path))} onClick={() => play(a.path)}>
                <Icon name="play" />
              </button>
            )}
            <Download id={id} path={a.path} />
          </div>
        ),
      )}
      {all.length > most && (
        <button type="button" className="button small" onClick={() => setMost(most + step)}>
          {w.more(Math.min(step, all.length - most))}
        </button>
      )}
    </section>
  );
}
