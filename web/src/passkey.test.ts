import { expect, test } from "vitest";
import { bytes, text } from "./passkey";

test("bytes survive base64url", () => {
  const all = Uint8Array.from({ length: 256 }, (_, i) => i);
  for (let n = 0; n <= 256; n++) {
    const some = all.slice(0, n);
    const out = text(some.buffer);
    expect(out).toMatch(/^[\w-]*$/);
    expect(bytes(out)).toEqual(some);
  }
});
