import RFB from "@novnc/novnc";
import type { Socket } from "../api/transport";

/** Callbacks of a desktop. Texts come from the machine and are untrusted. */
export type ScreenEvents = {
  shown: () => void;
  lost: () => void;
  /** The desktop cannot be shown, and retrying would not help. */
  refused: (why: "large" | "verification" | "password", words: string) => void;
  asked: (name: boolean) => void; // asks for a password and, if name is set, for a name
  copied: (text: string) => void;
};

const most = 1 << 24; // maximum number of pixels of a screen: more would freeze the page
const mostCursor = 128; // maximum side of a cursor in pixels: a larger one could imitate parts of the page
const mostText = 1 << 20; // characters of clipboard text
const mostWords = 200; // characters of a refusal's message

/**
 * The screen of a machine, which is untrusted: it draws only within its own
 * box, and its clipboard text is only passed to the callback.
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

  /** Disconnects; no callbacks are called afterwards. */
  end(): void {
    this.tell = undefined;
    this.disconnect();
  }

  /** Types text from an on-screen keyboard, which sends no key events. */
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
    queueMicrotask(() => this.disconnect()); // deferred, because it may be processing a message
  }
}

/** The keysym of a character: X's own below U+0100 and for a few keys, otherwise Unicode's. */
export function keysymOf(c: string): number {
  const at = c.codePointAt(0) ?? 0;
  if (at === 10 || at === 13) return 0xff0d; // Return
  if (at === 8) return 0xff08; // BackSpace
  if (at === 9) return 0xff09; // Tab
  return at < 0x100 ? at : 0x1000000 + at;
}

/** Adapts a socket to noVNC's interface. */
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
