/** The most of a file that is opened to be edited, and of a picture that is shown, in bytes. */
export const mostText = 4 << 20;
export const mostPicture = 16 << 20;

const pictures: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", avif: "image/avif", bmp: "image/bmp", ico: "image/x-icon" };

/** The type of a picture, by its name; "" for anything else. An SVG is a text. */
export const pictureOf = (path: string): string => pictures[path.slice(path.lastIndexOf(".") + 1).toLowerCase()] ?? "";

/** Bytes as text, or undefined where they are none. Nothing of them is left out: written back they are the same. */
export function textOf(bytes: Uint8Array): string | undefined {
  if (bytes.subarray(0, 8 << 10).includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** What ends the lines of a text. Of a text that has both, the rest is seen in its lines. */
export const lineEndOf = (text: string): "\n" | "\r\n" => (/\r\n/.test(text) && !/(^|[^\r])\n/.test(text) && !/\r(?!\n)/.test(text) ? "\r\n" : "\n");

/** What somebody has written into a file and not yet saved: over which contents, and what. */
export type Unsaved = { tag: string; text: string };

const kept = new Map<string, Unsaved>(); // for what a browser has no room for
const placeOf = (agent: string, path: string) => `aloft.draft.file.${agent}.${path}`;

/** Keeps what is not saved over a reload of the page; undefined forgets it. */
export function keep(agent: string, path: string, unsaved: Unsaved | undefined): void {
  const place = placeOf(agent, path);
  if (unsaved === undefined) {
    kept.delete(place);
    sessionStorage.removeItem(place);
    return;
  }
  kept.set(place, unsaved);
  try {
    sessionStorage.setItem(place, JSON.stringify(unsaved));
  } catch {
    sessionStorage.removeItem(place); // an older one would be wrong; this one is kept for as long as the page is
  }
}

/** What was kept. */
export function keptOf(agent: string, path: string): Unsaved | undefined {
  const place = placeOf(agent, path);
  const here = kept.get(place);
  if (here) return here;
  try {
    const text = sessionStorage.getItem(place);
    return text === null ? undefined : (JSON.parse(text) as Unsaved);
  } catch {
    return undefined;
  }
}

/** Whether something of the agent's files is kept that a reload would lose. */
export const wouldLose = (): boolean => [...kept.keys()].some((place) => sessionStorage.getItem(place) === null);
