import type { Socket } from "../api/transport";

const width = 1024;
const height = 640;

/** The content of the demo's desktop: some windows. */
function painted(): Uint8ClampedArray {
  const canvas = new OffscreenCanvas(width, height);
  const c = canvas.getContext("2d");
  if (!c) return new Uint8ClampedArray(width * height * 4);
  const box = (colour: string, x: number, y: number, w: number, h: number) => {
    c.fillStyle = colour;
    c.fillRect(x, y, w, h);
  };
  const text = (colour: string, font: string, x: number, y: number, lines: string[]) => {
    c.fillStyle = colour;
    c.font = font;
    lines.forEach((line, i) => c.fillText(line, x, y + i * 20));
  };
  const frame = (title: string, x: number, y: number, w: number, h: number, back: string) => {
    box("#00000055", x + 6, y + 8, w, h);
    box("#3b4252", x, y, w, 28);
    text("#eceff4", "600 13px sans-serif", x + 12, y + 19, [title]);
    box(back, x, y + 28, w, h - 28);
  };
  const sky = c.createLinearGradient(0, 0, width, height);
  sky.addColorStop(0, "#2060a0");
  sky.addColorStop(1, "#20a090");
  c.fillStyle = sky;
  c.fillRect(0, 0, width, height);
  box("#102030", 0, 0, width, 26);
  text("#eceff4", "600 13px sans-serif", 12, 18, ["Applications"]);
  frame("Shop · Browser", 70, 60, 600, 420, "#ffffff");
  box("#f0f2f5", 70, 88, 600, 36);
  text("#4c566a", "13px sans-serif", 90, 111, ["localhost:3000/orders"]);
  text("#1b1f27", "700 24px sans-serif", 100, 168, ["Orders"]);
  ["#1042 · delivered", "#1043 · retried twice, delivered", "#1044 · waiting"].forEach((line, i) => {
    box(i % 2 ? "#ffffff" : "#f6f7f9", 90, 190 + i * 44, 560, 44);
    text("#1b1f27", "15px sans-serif", 104, 217 + i * 44, [line]);
  });
  frame("agent: /workspace", 430, 300, 540, 280, "#1b1f27");
  text("#a3be8c", "14px monospace", 446, 356, ["agent:/workspace$ npm test", "", "  ✓ delivers an order once", "  ✓ retries with backoff", "  ✓ gives up after a day", "", "agent:/workspace$ ▮"]);
  return c.getImageData(0, 0, width, height).data;
}

/** Encodes parts of messages as RFC 6143 (RFB) defines them. */
const u8 = (...n: number[]) => n;
const u16 = (...all: number[]) => all.flatMap((n) => [n >> 8, n & 255]);
const u32 = (...all: number[]) => all.flatMap((n) => [...u16(n >>> 16), ...u16(n & 0xffff)]);
const ascii = (text: string) => [...text].map((c) => c.charCodeAt(0));
const cut = (text: string) => [...u8(3, 0, 0, 0), ...u32(text.length), ...ascii(text)];
const cursor = -239 >>> 0;
const newSize = -223 >>> 0;

/**
 * A desktop inside the page, with the protocol of a machine's desktop (RFB). Text pasted into the
 * desktop can be copied back. A hostile desktop returns other text when asked to copy, and
 * announces an enormous size after any other key.
 */
export function desktop(hostile: boolean): Socket {
  let got: number[] = [];
  let step = 0;
  let first = true;
  const out: Socket = { onopen: null, onmessage: null, onclose: null, send: (data) => hear(data), close: () => setTimeout(() => out.onclose?.("")) };
  const say = (...parts: ArrayLike<number>[]) => {
    const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
    parts.reduce((at, p) => (all.set(p, at), at + p.length), 0);
    queueMicrotask(() => out.onmessage?.(all.buffer));
  };
  const update = (x: number, y: number, w: number, h: number, encoding: number, ...data: ArrayLike<number>[]) => say([...u8(0, 0), ...u16(1, x, y, w, h), ...u32(encoding)], ...data);
  /** The length of the first message in the received bytes; 0 while it is not known. */
  const lengthOf = () => {
    const long = (at: number) => (got.length < at + 4 ? 0 : at + 4 + (((got[at] ?? 0) << 24) | ((got[at + 1] ?? 0) << 16) | ((got[at + 2] ?? 0) << 8) | (got[at + 3] ?? 0)));
    if (step < 3) return [12, 1, 1][step] ?? 0;
    if (got[0] === 2) return got.length < 4 ? 0 : 4 + 4 * (((got[2] ?? 0) << 8) | (got[3] ?? 0));
    return { 0: 20, 3: 10, 4: 8, 5: 6, 6: long(4) }[got[0] ?? 0] ?? got.length;
  };
  const answer = (m: number[]) => {
    if (step === 0) say(u8(1, 1));
    if (step === 1) say(u32(0));
    if (step === 2) say(u16(width, height), u8(32, 24, 0, 1), u16(255, 255, 255), u8(0, 8, 16, 0, 0, 0), u32(4), ascii("demo"));
    if (step++ < 3) return;
    if (m[0] === 3 && first) {
      first = false;
      update(0, 0, width, height, 0, painted());
      if (hostile) update(0, 0, 400, 300, cursor, new Uint8Array(400 * 300 * 4).fill(255), new Uint8Array(50 * 300).fill(255)); // a cursor that would cover the page
    }
    if (m[0] === 6) say(m.map((b, i) => (i === 0 ? 3 : b)));
    if (m[0] === 4 && hostile) m[7] === 0x63 ? say(cut("taken from you")) : update(0, 0, 65_535, 65_535, newSize);
  };
  const hear = (data: string | Uint8Array) => {
    if (typeof data !== "string") got.push(...data);
    for (let n = lengthOf(); n > 0 && got.length >= n; n = lengthOf()) {
      const m = got.slice(0, n);
      got = got.slice(n);
      answer(m);
    }
  };
  queueMicrotask(() => {
    out.onopen?.();
    say(ascii("RFB 003.008\n"));
  });
  return out;
}
