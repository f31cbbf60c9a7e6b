import { useState } from "react";
import { createPortal } from "react-dom";
import { useClient } from "../api/use";
import type { Shot } from "../journal/entry";
import { words } from "../words";
import { Dialog } from "./Dialog";

/** Thumbnails of an agent's images; a click enlarges one to the window. */
export function Shots({ id, shots }: { id: string; shots: readonly Shot[] }) {
  const client = useClient();
  const [open, setOpen] = useState<number>();
  if (shots.length === 0) return null;
  const source = (s: Shot) => client.image(id, s.seq, s.n);
  const large = open === undefined ? undefined : shots[open];
  return (
    <>
      <ul className="shots">
        {shots.map((s, i) => (
          <li key={i}>
            <button type="button" onClick={() => setOpen(i)} aria-label={words.shots.open(i + 1, shots.length)}>
              <img src={source(s)} alt="" loading="lazy" decoding="async" width={160} height={100} />
            </button>
          </li>
        ))}
      </ul>
      {large && createPortal( // out of the row, which is moved and would hold it
        <Dialog title={words.shots.one((open ?? 0) + 1, shots.length)} close={() => setOpen(undefined)} className="shot">
          <div className="body">
            <a href={source(large)} target="_blank" rel="noreferrer noopener" title={words.shots.whole}>
              <img src={source(large)} alt={words.shots.alt} />
            </a>
          </div>
        </Dialog>,
        document.body,
      )}
    </>
  );
}
