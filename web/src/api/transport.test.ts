import { afterEach, expect, test, vi } from "vitest";
import { network } from "./transport";

afterEach(() => {
  network.forget();
  vi.unstubAllGlobals();
});

const server = () => {
  let n = 0;
  const fetch = vi.fn((_path: string, _init?: RequestInit) => Promise.resolve(new Response(JSON.stringify(++n))));
  vi.stubGlobal("fetch", fetch);
  return fetch;
};

test("what was begun ahead is got once", async () => {
  const fetch = server();
  network.ahead("/v1/agents/a");
  expect(await network.json("GET", "/v1/agents/a")).toBe(1);
  expect(fetch).toHaveBeenCalledTimes(1);
  expect(await network.json("GET", "/v1/agents/a")).toBe(2); // a new request
});

test("what was begun ahead answers nothing but a GET, and nobody else", async () => {
  const fetch = server();
  network.ahead("/v1/agents/a");
  expect(await network.json("POST", "/v1/agents/a")).toBe(2);
  network.ahead("/v1/agents/b");
  network.forget();
  expect(await network.json("GET", "/v1/agents/b")).toBe(4);
  expect(fetch).toHaveBeenCalledTimes(4);
});

test("a failure of what was begun ahead is told to whoever gets it", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("refused")));
  network.ahead("/v1/agents/a");
  await expect(network.json("GET", "/v1/agents/a")).rejects.toMatchObject({ code: "unreachable" });
});
