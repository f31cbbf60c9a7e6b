/** The largest file that can be edited, and the largest image that is shown, in bytes. */
export const mostText = 4 << 20;
export const mostPicture = 16 << 20;

const pictures: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", avif: "image/avif", bmp: "image/bmp", ico: "image/x-icon" };

/** The media type of an image, by its file name; "" for anything else. SVG counts as text. */
export const pictureOf = (path: string): string => pictures[path.slice(path.lastIndexOf(".") + 1).toLowerCase()] ?? "";

/**
 * Decodes bytes as text without loss, so that writing the text back gives the same bytes; undefined
 * if they are not text.
 */
export function textOf(bytes: Uint8Array): string | undefined {
  if (bytes.subarray(0, 8 << 10).includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * The line ending of a text. If a text has both, LF is used and carriage
 * returns stay in the lines.
 */
export const lineEndOf = (text: string): "\n" | "\r\n" => (/\r\n/.test(text) && !/(^|[^\r])\n/.test(text) && !/\r(?!\n)/.test(text) ? "\r\n" : "\n");

/** Unsaved edits of a file: the tag of the contents they are based on, and the new text. */
export type Unsaved = { tag: string; text: string };

const kept = new Map<string, Unsaved>(); // fallback if the browser's storage is full
const placeOf = (agent: string, path: string) => `aloft.draft.file.${agent}.${path}`;

/** Stores unsaved edits across a reload of the page; undefined deletes them. */
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
    sessionStorage.removeItem(place); // an outdated version must not remain; the fallback keeps this one while the page is open
  }
}

/** Returns the unsaved edits of a file, if any are stored. */
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

/** Whether there are unsaved edits that a reload would lose. */
export const wouldLose = (): boolean => [...kept.keys()].some((place) => sessionStorage.getItem(place) === null);
