import { ended } from "../session";

/** What the server said is wrong, or that it could not be asked. */
export class Failure extends Error {
  constructor(
    readonly status: number, // 0 where there was no answer
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
  get offline(): boolean {
    return this.status === 0 || this.status === 502 || this.status === 503 || this.status === 504;
  }
}

/** How requests reach a server: over the network, or a demonstration in the page. */
export interface Transport {
  /** Begins to get what is at a path. Whoever gets it next has that reply. */
  ahead(path: string): void;
  /** Drops what was begun ahead. */
  forget(): void;
  /** Sends a request and returns the reply's JSON. A Blob goes as it is. */
  json(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<unknown>;
  /** Puts a file there, tells which share of it has been sent, from 0 to 1, and returns the reply's JSON. */
  put(path: string, contents: Blob, headers: Record<string, string>, sent: (share: number) => void, signal: AbortSignal): Promise<unknown>;
  /** Gets a reply as the bytes that it has, and its ETag without the quotes. */
  bytes(path: string, signal?: AbortSignal): Promise<{ bytes: Uint8Array<ArrayBuffer>; tag: string }>;
  /** Gets a reply piece by piece, until it ends or signal says so; posts where there is a body. */
  pieces(path: string, signal: AbortSignal, body?: unknown): AsyncIterable<string>;
  /** Where a browser finds what is at a path, or at an address of the server's. */
  source(address: string): string;
  /** Opens a WebSocket. */
  socket(path: string, protocol: string): Socket;
}

/** The part of a WebSocket that is used here. */
export interface Socket {
  onopen: (() => void) | null;
  onmessage: ((data: string | ArrayBuffer) => void) | null;
  onclose: ((why: string) => void) | null;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(): void;
}

const unreachable = "the server cannot be reached";

// By the path, until somebody gets it. public/early.js has begun the first.
const begun = (globalThis as { aloftBegun?: Map<string, Promise<Response>> }).aloftBegun ?? new Map<string, Promise<Response>>();

const begin = (path: string, init: RequestInit) => fetch(path, { credentials: "same-origin", cache: "no-store", redirect: "error", ...init });

async function fetched(path: string, init: RequestInit): Promise<Response> {
  let reply: Response;
  try {
    const ahead = (init.method ?? "GET") === "GET" ? begun.get(path) : undefined;
    begun.delete(path);
    reply = await (ahead ?? begin(path, init));
  } catch (e) {
    if (init.signal?.aborted) throw e;
    throw new Failure(0, "unreachable", unreachable);
  }
  if (reply.ok) return reply;
  throw refusal(path, reply.status, await reply.text().catch(() => ""));
}

/** What the server says in a reply that refuses. */
function refusal(path: string, status: number, text: string): Failure {
  let code = "http";
  let message = `the server answered ${status}`;
  try {
    const body = JSON.parse(text) as { error?: { code?: string; message?: string } };
    code = body.error?.code ?? code;
    message = body.error?.message ?? message;
  } catch {
    // not the API's shape: a proxy's page, say
  }
  if (status === 401 && path !== "/v1/session") ended();
  return new Failure(status, code, message);
}

/** The server that this page came from. */
export const network: Transport = {
  ahead(path) {
    if (begun.has(path)) return;
    const reply = begin(path, {});
    reply.catch(() => undefined); // whoever gets it is told
    begun.set(path, reply);
  },
  forget: () => begun.clear(),
  async json(method, path, body, headers) {
    const init: RequestInit = { method, headers: { ...headers } };
    if (body instanceof Blob) {
      init.body = body;
    } else if (body !== undefined) {
      init.body = JSON.stringify(body);
      init.headers = { ...init.headers, "Content-Type": "application/json" };
    }
    const reply = await fetched(path, init);
    return reply.status === 204 ? undefined : reply.json();
  },
  put: (path, contents, headers, sent, signal) =>
    new Promise((done, fail) => {
      const request = new XMLHttpRequest(); // fetch does not say how much it has sent
      request.open("PUT", path);
      for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
      request.upload.onprogress = (e) => e.lengthComputable && sent(e.loaded / e.total);
      request.onload = () => (request.status < 300 ? done(JSON.parse(request.responseText || "null")) : fail(refusal(path, request.status, request.responseText)));
      request.onerror = () => fail(new Failure(0, "unreachable", unreachable));
      request.onabort = () => fail(signal.reason);
      signal.addEventListener("abort", () => request.abort());
      request.send(contents);
    }),
  async bytes(path, signal) {
    const reply = await fetched(path, signal ? { signal } : {});
    try {
      return { bytes: new Uint8Array(await reply.arrayBuffer()), tag: (reply.headers.get("ETag") ?? "").replaceAll('"', "") };
    } catch (e) {
      if (signal?.aborted) throw e;
      throw new Failure(0, "cut", unreachable);
    }
  },
  async *pieces(path, signal, body) {
    const post = { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
    const reply = await fetched(path, body === undefined ? { signal } : { signal, ...post });
    if (!reply.body) return;
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        yield value;
      }
    } catch (e) {
      if (signal.aborted) throw e;
      throw new Failure(0, "cut", unreachable);
    } finally {
      reader.cancel().catch(() => undefined); // it has ended, one way or the other
    }
  },
  source: (address) => {
    const { pathname, search } = new URL(address, location.href);
    return pathname + search; // of this very server, whatever name it has elsewhere
  },
  socket(path, protocol) {
    const url = new URL(path, location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const ws = new WebSocket(url, protocol);
    ws.binaryType = "arraybuffer";
    const out: Socket = {
      onopen: null,
      onmessage: null,
      onclose: null,
      send: (data) => {
        if (ws.readyState === WebSocket.OPEN) ws.send(data);
      },
      close: () => ws.close(),
    };
    ws.onopen = () => out.onopen?.();
    ws.onmessage = (e) => out.onmessage?.(e.data as string | ArrayBuffer);
    ws.onclose = (e) => out.onclose?.(e.reason);
    return out;
  },
};

/** Cuts what comes in pieces into lines; the last one is not whole until its end. */
export async function* lines(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = "";
  for await (const piece of pieces) {
    const all = (rest + piece).split("\n");
    rest = all.pop() ?? "";
    yield* all;
  }
}
