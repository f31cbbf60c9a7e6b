import { Failure } from "../api/transport";
import type { FileEntry } from "../api/types";

const deliver = `import { clock } from "../clock";
import { type Item, outbox } from "./outbox";

const most = 24 * 3600 * 1000; // milliseconds for which a delivery is retried

/** Sends the queued prompts, and keeps those that could not be sent for later. */
export async function deliver(url: string, now = clock.now()): Promise<number> {
  let sent = 0;
  for (const item of await outbox.waiting(now)) {
    const reply = await post(url, JSON.stringify(item.body));
    if (reply.ok) {
      await outbox.done(item.id);
      sent++;
    } else if (!givenUp(item, now)) {
      await outbox.later(item.id, now + backoff(item.tries));
    }
  }
  return sent;
}

/** Whether a delivery is so old that the page gives it up. */
export function givenUp(item: Item, now = clock.now()): boolean {
  return now - item.createdAt > most;
}

const backoff = (tries: number) => Math.min(2 ** tries * 1_000, 3_600_000);

function post(url: string, body: string) {
  return fetch(url, { method: "POST", body, headers: { "Content-Type": "application/json" } });
}
`;

// A picture of 64 by 64 pixels.
const logo = "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAjklEQVR42u3ZwQ3CQAxE0RRDT5RNScOJQyQQJLuOhfZ9uYB5Z2+3++OvbwMAAAAAAAAAAAAAAKi6JAB9gLwC6ABkH8C1gLwL4CpAPgdQD8i3ACoB+S2AGkCOBDAbkOMBzAPkbAAzABkLoHX9uGFtQOYF0Lp+xLAqIDUBtK4/Z/AfAAAAAAAAAAAAAFgX8ASv9tKtY8OsTgAAAABJRU5ErkJggg==";

const text = (s: string) => new TextEncoder().encode(s);
const contents = new Map<string, Uint8Array<ArrayBuffer>>([
  ["CHANGELOG.md", text("# Changelog\n\n- Webhooks that fail are sent again for a day.\n- Carts keep their coupons.\n- Faster search.\n")],
  ["package.json", text('{\n  "name": "shop",\n  "type": "module",\n  "scripts": { "test": "vitest run" }\n}\n')],
  ["logo.png", Uint8Array.from(atob(logo), (c) => c.charCodeAt(0))],
  ["data.sqlite", new Uint8Array(40_960)],
  ["src/outbox/deliver.ts", text(deliver)],
  ["src/outbox/deliver.test.ts", text('import { expect, test } from "vitest";\nimport { givenUp } from "./deliver";\n')],
  ["src/outbox/outbox.ts", text("export type Item = { id: string; body: unknown; tries: number; createdAt: number };\n")],
  ["src/clock.ts", text("export const clock = { now: () => Date.now() };\n")],
  ["<img src=x onerror=alert(1)>\n\u202egpj.exe", text("\x1b[31mred\x1b[0m \u202eturned around\u202c </script><script>alert(1)</script>\n")],
]);
const sizes: Record<string, number> = { "trace.log": 48_300_000 };

/** The content of a folder of the demo. */
export function listOf(folder: string): { items: FileEntry[] } {
  const base = folder === "." ? "" : `${folder}/`;
  const found = new Map<string, FileEntry>();
  const modifiedAt = new Date().toISOString();
  const all: [string, number][] = [...[...contents].map(([path, b]): [string, number] => [path, b.length]), ...Object.entries(sizes)];
  for (const [path, sizeBytes] of all) {
    if (!path.startsWith(base)) continue;
    const [name = "", ...below] = path.slice(base.length).split("/");
    if (name) found.set(name, { name, type: below.length > 0 ? "folder" : "file", sizeBytes: below.length > 0 ? 4096 : sizeBytes, modifiedAt });
  }
  if (folder === ".") found.set("cases", { name: "cases", type: "folder", sizeBytes: 4096, modifiedAt });
  if (folder === "cases") for (let n = 1; n <= 4000; n++) found.set(`case-${n}.json`, { name: `case-${n}.json`, type: "file", sizeBytes: n * 37, modifiedAt });
  return { items: [...found.values()] };
}

export function bytesOf(path: string): { bytes: Uint8Array<ArrayBuffer>; tag: string } {
  const bytes = contents.get(path) ?? (/^cases\/case-\d+\.json$/.test(path) ? text('{ "ok": true }\n') : undefined);
  if (!bytes) throw new Failure(404, "file_not_found", `/workspace/${path} does not exist`);
  return { bytes, tag: `${bytes.length}` };
}

/** Writes a file; it is lost when the page is closed. */
export function write(path: string, body: unknown): unknown {
  if (body instanceof Blob) void body.arrayBuffer().then((b) => contents.set(path, new Uint8Array(b)));
  return { sizeBytes: body instanceof Blob ? body.size : 0, sha256: `${body instanceof Blob ? body.size : 0}` };
}

export function remove(path: string): unknown {
  for (const p of [...contents.keys()]) if (p === path || p.startsWith(`${path}/`)) contents.delete(p);
  return { path };
}

export function move(body: unknown): unknown {
  const { from, to } = body as { from: string; to: string };
  for (const [p, b] of [...contents]) if (p === from || p.startsWith(`${from}/`)) contents.delete(p), contents.set(to + p.slice(from.length), b);
  return { path: to };
}
