import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runInNewContext } from "node:vm";
import { expect, test, vi } from "vitest";
import { foreseeAgents, forgetAgents } from "../store/agents";
import { Client } from "../api/client";
import type { Transport } from "../api/transport";

const script = readFileSync(join(import.meta.dirname, "../../public/early.js"), "utf8");

/** The requests that public/early.js makes at an address, and the scripts that it has preloaded. */
function early(pathname: string, wasIn: string | null) {
  const asked: string[] = [];
  const scripts: string[] = [];
  const page: { aloftBegun?: Map<string, Promise<unknown>> } & Record<string, unknown> = {
    localStorage: { getItem: (name: string) => (name === "aloft.was-in" ? wasIn : null) },
    location: { pathname },
    document: { currentScript: { dataset: { agent: "/assets/agent.js" } }, createElement: () => ({}), head: { append: (e: { href: string }) => scripts.push(e.href) } },
    fetch: (path: string) => (asked.push(path), Promise.reject(new Error("away"))),
  };
  runInNewContext(script, page);
  expect([...(page.aloftBegun?.keys() ?? [])]).toEqual(asked);
  return { asked: asked.sort(), scripts };
}

/** A client, and its requests. */
function recorded() {
  const asked: string[] = [];
  const transport = { ahead: (path) => asked.push(path), json: (_, path) => (asked.push(path), new Promise(() => {})) } as Partial<Transport> as Transport;
  return { client: new Client(transport), asked };
}

test("the early script asks for what the page asks for", async () => {
  for (const path of ["/", "/agents"]) {
    const { client, asked } = recorded();
    forgetAgents();
    foreseeAgents(client);
    void client.session();
    await vi.waitFor(() => expect(early(path, "yes")).toEqual({ asked: asked.sort(), scripts: [] }));
  }
  for (const path of ["/agents/bc-1", "/agents/bc-1/changes"]) {
    const { client, asked } = recorded();
    client.foresee("bc-1");
    void client.session();
    expect(early(path, "yes")).toEqual({ asked: asked.sort(), scripts: ["/assets/agent.js"] });
  }
  expect(early("/settings", "yes")).toEqual({ asked: ["/v1/session"], scripts: [] });
  expect(early("/agents", null)).toEqual({ asked: [], scripts: [] });
});

test("the transport takes over what was begun early, once", async () => {
  const fetched: string[] = [];
  vi.stubGlobal("fetch", (path: string) => (fetched.push(path), Promise.resolve(Response.json({ from: "later" }))));
  vi.stubGlobal("aloftBegun", new Map([["/v1/session", Promise.resolve(Response.json({ from: "early" }))]]));
  vi.resetModules();
  const { network } = await import("../api/transport");
  network.ahead("/v1/session");
  expect(fetched).toEqual([]);
  expect(await network.json("GET", "/v1/session")).toEqual({ from: "early" });
  expect(await network.json("GET", "/v1/session")).toEqual({ from: "later" });
  expect(fetched).toEqual(["/v1/session"]);
  vi.unstubAllGlobals();
});
