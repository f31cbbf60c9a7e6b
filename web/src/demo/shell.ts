import type { Socket } from "../api/transport";

const prompt = "\x1b[1;32magent\x1b[0m:\x1b[1;34m/workspace\x1b[0m$ ";

/** A terminal that echoes what is typed. */
export function shell(): Socket {
  let line = "";
  const out: Socket = {
    onopen: null,
    onmessage: null,
    onclose: null,
    send(data) {
      if (typeof data === "string") {
        if (!data.includes('"terminal"')) return;
        out.onmessage?.(JSON.stringify({ type: "attached", id: "demo", pid: 42, tty: true, columns: 80, rows: 24, offset: 0 }));
        print(`${prompt}git status --short\r\n \x1b[31mM\x1b[0m src/outbox/deliver.ts\r\n\x1b[31m??\x1b[0m src/outbox/deliver.test.ts\r\n${prompt}`);
        return;
      }
      for (const c of new TextDecoder().decode(data.subarray(1))) {
        if (c === "\r") {
          print(`\r\n${line ? `${line.split(" ")[0]}: this is a demonstration\r\n` : ""}${prompt}`);
          line = "";
        } else {
          line += c;
          print(c);
        }
      }
    },
    close: () => undefined,
  };
  const print = (text: string) => out.onmessage?.(new Uint8Array([1, ...new TextEncoder().encode(text)]).buffer);
  queueMicrotask(() => out.onopen?.());
  return out;
}
