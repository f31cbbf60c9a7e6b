import { ended } from "./session";

/** An error response of the server, or the failure to reach it. */
export class Failure extends Error {
  constructor(
    readonly status: number, // 0 without a response
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
  get offline(): boolean {
    return this.status === 0 || this.status === 502 || this.status === 503 || this.status === 504;
  }
}

/** How requests reach the server: over the network, or a demo server in the page. */
export interface Transport {
  /** Prefetches a path. The next request for it uses that response. */
  ahead(path: string): void;
  /** Drops prefetched responses. */
  forget(): void;
  /** Sends a request and returns the response's JSON. A Blob is sent unchanged. */
  json(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<unknown>;
  /**
   * Uploads a file, reports the share that has been sent (0 to 1), and returns the response's JSON.
   */
  put(path: string, contents: Blob, headers: Record<string, string>, sent: (share: number) => void, signal: AbortSignal): Promise<unknown>;
  /** Returns a response's bytes, and its ETag without the quotes. */
  bytes(path: string, signal?: AbortSignal): Promise<{ bytes: Uint8Array<ArrayBuffer>; tag: string }>;
  /**
   * Returns a response piece by piece, until it ends or signal aborts it. Sends
   * a POST if there is a body.
   */
  pieces(path: string, signal: AbortSignal, body?: unknown): AsyncIterable<string>;
  /** The URL for an API path, or for a URL that the server returned. */
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

// Prefetched responses by path. public/early.js makes the first requests.
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

/** Converts an error response to a Failure. */
function refusal(path: string, status: number, text: string): Failure {
  let code = "http";
  let message = `the server answered ${status}`;
  try {
    const body = JSON.parse(text) as { error?: { code?: string; message?: string } };
    code = body.error?.code ?? code;
    message = body.error?.message ?? message;
  } catch {
    // The body is not in the API's format. It may be a proxy's error page, for
    // example.
  }
  if (status === 401 && path !== "/v1/session") ended();
  return new Failure(status, code, message);
}

/** The server from which this page was loaded. */
export const network: Transport = {
  ahead(path) {
    if (begun.has(path)) return;
    const reply = begin(path, {});
    reply.catch(() => undefined); // the caller that uses the response reports errors
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
      const request = new XMLHttpRequest(); // fetch does not report upload progress
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
      reader.cancel().catch(() => undefined); // the response may have ended already
    }
  },
  source: (address) => {
    const { pathname, search } = new URL(address, location.href);
    return pathname + search; // keep this page's host, even if the server's URL has another
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

/** Splits pieces of text into lines. The last line is returned only at the end of the input. */
export async function* lines(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = "";
  for await (const piece of pieces) {
    const all = (rest + piece).split("\n");
    rest = all.pop() ?? "";
    yield* all;
  }
}
