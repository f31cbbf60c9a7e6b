/**
 * Returns an idempotency key of 128 random bits in hex, so that repeating a
 * request creates nothing twice. crypto.randomUUID is not available on pages
 * loaded over plain HTTP.
 */
export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
