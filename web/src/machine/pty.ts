import type { Socket } from "../api/transport";

/** Callbacks of a terminal. */
export type PtyEvents = {
  output: (bytes: Uint8Array) => void;
  attached: () => void;
  gap: () => void;
  ended: (code: number) => void;
  /**
   * The connection was lost, or refused with the machine's message. It
   * reconnects unless final is set.
   */
  lost: (why: string, final: boolean) => void;
};

const input = 0;
const stdout = 1;
const soonest = 500; // milliseconds before reconnecting for the first time
const latest = 10_000;

/**
 * A shared terminal of a machine, with the protocol of docs/reference/pty.md.
 * After a lost connection it continues at the same position: no output is
 * repeated, and a gap is reported.
 */
export class Pty {
  private socket: Socket | undefined;
  private id = ""; // id of the PTY, once attached
  private offset = 0; // offset of the next byte
  private over = false;
  private wait = soonest;
  private size: { columns: number; rows: number };

  constructor(
    private readonly open: () => Socket,
    private readonly terminal: string,
    size: { columns: number; rows: number },
    private readonly tell: PtyEvents,
  ) {
    this.size = size;
    this.connect();
  }

  type(text: string): void {
    const bytes = new TextEncoder().encode(text);
    const frame = new Uint8Array(bytes.length + 1);
    frame[0] = input;
    frame.set(bytes, 1);
    this.socket?.send(frame);
  }

  resize(columns: number, rows: number): void {
    this.size = { columns, rows };
    this.socket?.send(JSON.stringify({ type: "resize", columns, rows }));
  }

  close(): void {
    this.over = true;
    this.socket?.close();
  }

  private connect(): void {
    if (this.over) return;
    const socket = (this.socket = this.open());
    socket.onopen = () => {
      const begin = this.id ? { type: "attach", id: this.id, from: this.offset, ...this.size } : { type: "terminal", terminal: this.terminal, ...this.size };
      socket.send(JSON.stringify(begin));
    };
    socket.onmessage = (data) => (typeof data === "string" ? this.said(data) : this.printed(new Uint8Array(data)));
    socket.onclose = (why) => {
      if (this.over) return;
      this.tell.lost(why, false);
      setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(this.wait * 2, latest);
    };
  }

  private printed(frame: Uint8Array): void {
    if (frame[0] !== stdout) return;
    this.offset += frame.length - 1;
    this.tell.output(frame.subarray(1));
  }

  private said(text: string): void {
    const m = JSON.parse(text) as { type: string; id?: string; offset?: number; code?: number; message?: string };
    switch (m.type) {
      case "attached":
        this.id = m.id ?? "";
        this.offset = m.offset ?? 0;
        this.wait = soonest;
        this.tell.attached();
        break;
      case "gap":
        this.offset = m.offset ?? this.offset;
        this.tell.gap();
        break;
      case "exit":
        this.over = true;
        this.tell.ended(m.code ?? 0);
        break;
      case "error":
        if (this.id) {
          this.id = ""; // the PTY is gone with its machine, so attach to the terminal anew
          break;
        }
        this.over = true;
        this.tell.lost(m.message ?? "", true);
    }
  }
}
