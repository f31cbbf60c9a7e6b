import RFB from "@novnc/novnc";
import type { Socket } from "../api/transport";

/** What a desktop tells whoever shows it. Its words come from the machine. */
export type ScreenEvents = {
  shown: () => void;
  lost: () => void;
  /** It is no desktop that can be shown: asking again would not help. */
  refused: (why: "large" | "verification" | "password", words: string) => void;
  asked: (name: boolean) => void; // for a password, and with it a name
  copied: (text: string) => void;
};

const most = 1 << 24; // pixels of a screen: more would freeze the page
const mostCursor = 128; // pixels of a side: a larger one could pass for a part of the page
const mostText = 1 << 20; // characters of a clipboard
const mostWords = 200; // characters of what is said of a refusal

/**
 * The screen of a machine, which nobody vouches for: it draws within its own
 * box, and what it copies goes no further than to whoever is told.
 */
export class Screen extends RFB {
  private tell: ScreenEvents | undefined;

  constructor(box: HTMLElement, socket: Socket, label: string, tell: ScreenEvents) {
    super(box, channelOf(socket), { shared: true });
    this.tell = tell;
    this.background = "transparent";
    const on = (name: string, heard: (detail: Record<string, unknown>) => void) => this.addEventListener(name, (e) => this.tell && heard((e as CustomEvent<Record<string, unknown>>).detail));
    on("connect", () => {
      const canvas = box.querySelector("canvas");
      canvas?.setAttribute("role", "application");
      canvas?.setAttribute("aria-label", label);
      if (canvas) canvas.tabIndex = 0;
      this.tell?.shown();
    });
    on("disconnect", () => this.tell?.lost());
    on("credentialsrequired", ({ types }) => this.tell?.asked(Array.isArray(types) && types.includes("username")));
    on("securityfailure", ({ reason }) => this.refuse("password", String(reason ?? "").slice(0, mostWords)));
    on("serververification", () => this.refuse("verification", ""));
    on("clipboard", ({ text }) => this.tell?.copied(String(text).slice(0, mostText)));
  }

  /** Ends it; nothing is told any more. */
  end(): void {
    this.tell = undefined;
    this.disconnect();
  }

  /** Types what a keyboard without keys gives. */
  type(text: string): void {
    for (const c of text) this.sendKey(keysymOf(c), null);
  }

  protected override _resize(width: number, height: number): void {
    if (width * height <= most) return super._resize(width, height);
    super._resize(1, 1);
    this.refuse("large", `${width} × ${height}`);
  }

  protected override _updateCursor(rgba: Uint8Array, hotx: number, hoty: number, width: number, height: number): void {
    if (Math.max(width, height) <= mostCursor) return super._updateCursor(rgba, hotx, hoty, width, height);
    super._updateCursor(new Uint8Array(), 0, 0, 0, 0);
  }

  private refuse(why: "large" | "verification" | "password", words: string): void {
    const { tell } = this;
    this.tell = undefined;
    tell?.refused(why, words);
    queueMicrotask(() => this.disconnect()); // it may be in the midst of what it was told
  }
}

/** The keysym of a character: X's own below U+0100 and for a few keys, and Unicode's. */
export function keysymOf(c: string): number {
  const at = c.codePointAt(0) ?? 0;
  if (at === 10 || at === 13) return 0xff0d; // Return
  if (at === 8) return 0xff08; // BackSpace
  if (at === 9) return 0xff09; // Tab
  return at < 0x100 ? at : 0x1000000 + at;
}

/** A socket as noVNC wants one. */
function channelOf(socket: Socket) {
  const channel = {
    binaryType: "arraybuffer",
    protocol: "binary",
    readyState: WebSocket.CONNECTING as number,
    onopen: null as (() => void) | null,
    onmessage: null as ((e: { data: string | ArrayBuffer }) => void) | null,
    onclose: null as ((e: object) => void) | null,
    onerror: null,
    send: (data: Uint8Array<ArrayBuffer>) => socket.send(data),
    close: () => socket.close(),
  };
  socket.onopen = () => {
    channel.readyState = WebSocket.OPEN;
    channel.onopen?.();
  };
  socket.onmessage = (data) => channel.onmessage?.({ data });
  socket.onclose = () => {
    channel.readyState = WebSocket.CLOSED;
    channel.onclose?.({});
  };
  return channel;
}
