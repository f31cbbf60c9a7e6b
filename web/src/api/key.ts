/**
 * A name for one request, so that sending it again makes nothing twice: 128
 * random bits in hex. crypto.randomUUID would do, but for pages that came over
 * plain HTTP it is not there.
 */
export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
