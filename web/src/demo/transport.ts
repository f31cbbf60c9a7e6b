import { agentMcpServers, mcpServers, mcpTest } from "./mcp";
import { agentContext } from "./rules";
import { Failure, type Transport } from "../api/transport";
import { listed } from "../parts/status";
import type { Find } from "../api/types";
import { agents, idOf, setUps } from "./agents";
import { access, audit, keys, members, memories, passkeys, rules, server, settings, signedIn, signedOut, usage, diskUsage } from "./team";
import { settled } from "../journal/fold";
import { desktop } from "./desktop";
import { shell } from "./shell";
import { automations, starts } from "./automations";
import { buildLog, builds, checked, environments, environmentSecrets, proposal, proposed, schema, secrets, snapshots, versionDiff, versions } from "./environments";
import { bytesOf, listOf, move, remove, write } from "./files";
import { approval, branchDiff, journalOf, longDiff, picture, summary } from "./journal";
import { hostileDiff } from "./names";
import { models } from "./models";
import { openPull, proposedPull, standings } from "./pulls";
import { recording } from "./video";
import { asks } from "./questions";

/**
 * A server inside the page, with sample data, so that every view can be seen
 * without a real server. The address selects a state: ?demo=empty, loading, error, offline, slow or stream.
 */
const state = new URLSearchParams(location.search).get("demo") ?? "";

type Reply = (match: RegExpMatchArray, body: unknown, query: URLSearchParams) => unknown;

const page = <T,>(items: T[]) => ({ items: state === "empty" ? [] : items });

const routes: [method: string, path: RegExp, reply: Reply][] = [
  ["GET", /^\/v1\/members$/, () => ({ items: members })],
  ["POST", /^\/v1\/members$/, () => ({ member: members[2], link: { url: "https://aloft.example.com/sign-in#link=aloft_example", expiresAt: new Date(Date.now() + 3 * 86_400_000).toISOString() } })],
  ["GET", /^\/v1\/server$/, () => (state === "empty" ? { models: [], gitServers: [], ignored: [] } : server)],
  ["GET", /^\/v1\/settings$/, () => settings],
  ["GET", /^\/v1\/memories$/, () => (state === "empty" ? { repositories: [], items: [], truncated: false } : memories)],
  ["GET", /^\/v1\/repository-access$/, () => access],
  ["GET", /^\/v1\/audit$/, () => page(audit)],
  ["GET", /^\/v1\/usage\/disk$/, () => diskUsage],
  ["GET", /^\/v1\/usage$/, () => (state === "empty" ? { ...usage, items: [] } : usage)],
  ["GET", /^\/v1\/me\/keys$/, () => page(keys)],
  ["POST", /^\/v1\/me\/keys$/, () => ({ ...keys[1], key: "aloft_example" })],
  ["GET", /^\/v1\/me\/passkeys$/, () => page(passkeys)],
  ["GET", /^\/v1\/me$/, () => ({ apiKeyName: "admin", createdAt: new Date().toISOString(), userFirstName: "Ada", userEmail: "ada@example.com" })],
  ["GET", /^\/v1\/models$/, () => ({ items: models })],
  ["GET", /^\/v1\/repositories$/, () => page([{ url: "https://git.example.com/acme/shop" }, { url: "https://git.example.com/acme/web" }])],
  [
    "GET", /^\/v1\/agents$/,
    (_m, _b, query) => {
      if (state === "empty") return { items: [] };
      const from = Number(query.get("cursor") ?? 0);
      const next = from + 100;
      const find: Find = { ...Object.fromEntries(query), user: query.has("user") ? Number(query.get("user")) : "everybody" };
      const found = listed([...setUps, ...agents], find).sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
      if (state === "stream") return { items: found.slice(0, 20).map((a) => ({ ...a, runStatus: "RUNNING", doing: `Shell step ${Date.now()}` })) };
      return { items: found.slice(from, next), ...(next < found.length ? { nextCursor: String(next) } : {}) };
    },
  ],
  [
    "GET", /^\/v1\/agents\/([^/]+)$/,
    ([, id]) => {
      const found = [...agents, ...setUps].find((a) => a.id === id);
      if (!found) throw new Failure(404, "not_found", "no agent of this id");
      const limits = id === idOf(15) ? { limits: { costUsd: 5 }, used: { turns: 14, tokens: 812_000, costUsd: 5.02, seconds: 2610 } } : {};
      return { ...found, ...limits, workOnCurrentBranch: false, autoCreatePR: false, runMode: "auto-review", ports: [{ port: 3000, name: "web" }, { port: 5432, name: "db" }, { port: 9229 }] };
    },
  ],
  ["GET", /^\/v1\/agents\/([^/]+)\/journal$/, ([, id = ""]) => summary(id)],
  ["GET", /^\/v1\/agents\/[^/]+\/files$/, (_m, _b, query) => (state === "empty" ? { items: [] } : listOf(query.get("path") ?? "."))],
  ["DELETE", /^\/v1\/agents\/[^/]+\/files$/, (_m, _b, query) => remove(query.get("path") ?? "")],
  ["PUT", /^\/v1\/agents\/[^/]+\/files\/contents$/, (_m, body, query) => write(query.get("path") ?? "", body)],
  ["POST", /^\/v1\/agents\/[^/]+\/files\/move$/, (_m, body) => move(body)],
  ["GET", /^\/v1\/agents\/([^/]+)\/diff$/, ([, id]) => ({ diff: state === "empty" ? "" : id === idOf(102) ? longDiff() : id === idOf(9) ? hostileDiff : branchDiff, truncated: false })],
  ["GET", /^\/v1\/agents\/([^/]+)\/pull-requests$/, ([, id]) => standings(id)],
  ["GET", /^\/v1\/agents\/([^/]+)\/pull-requests\/proposal\b/, ([, id]) => proposedPull(id)],
  ["POST", /^\/v1\/agents\/([^/]+)\/pull-requests$/, ([, id], body) => openPull(id, body)],
  ["GET", /^\/v1\/approvals$/, () => page([{ agentId: approval().agentId, ...approval().approval }, ...asks()])],
  ["GET", /^\/v1\/agents\/[^/]+\/ports$/, () => ({ items: [{ port: 3000, program: "node" }, { port: 5432, program: "postgres" }] })],
  ["GET", /^\/v1\/agents\/[^/]+\/terminals$/, () => ({ items: ["main", "web"].map((name) => ({ name, createdAt: new Date().toISOString(), attached: 1, columns: 80, rows: 24, command: "bash", workingDirectory: "/workspace" })) })],
  ["GET", /^\/v1\/agents\/[^/]+\/desktop$/, () => (state === "empty" ? { running: false, reason: "nothing is listening on port 5901 of the machine", hint: "put a VNC server into its image, and the machine starts it by itself: tigervnc-standalone-server of Debian and Ubuntu, or `aloft image build --desktop`" } : { running: true, protocol: "3.8" })],
  ["GET", /^\/v1\/agents\/[^/]+\/artifacts$/, () => page([["orders.webm", 48_211], ["report.pdf", 1_204_000], ["orders-before.png", 88_410]].map(([name, sizeBytes]) => ({ path: `artifacts/${name}`, sizeBytes, updatedAt: new Date().toISOString() })))],
  ["GET", /^\/v1\/agents\/[^/]+\/artifacts\/download$/, async () => ({ url: await recording(), expiresAt: new Date().toISOString() })],
  ["GET", /^\/v1\/automations$/, () => page(automations)],
  ["GET", /^\/v1\/automations\/([^/]+)$/, ([, id]) => automations.find((a) => a.id === id) ?? automations[0]],
  ["GET", /^\/v1\/automations\/[^/]+\/starts$/, () => page(starts)],
  ["POST", /^\/v1\/automations\/[^/]+\/try$/, () => ({ accepted: true, prompt: "Update the minor dependencies, run the tests, and describe what has changed." })],
  ["GET", /^\/v1\/environments$/, () => page(environments)],
  ["GET", /^\/v1\/environments\/([^/]+)$/, ([, id]) => environments.find((e) => e.id === id) ?? environments[0]],
  ["GET", /^\/v1\/environments\/[^/]+\/builds$/, () => page(builds)],
  ["GET", /^\/v1\/environments\/[^/]+\/history$/, () => page(versions)],
  ["GET", /^\/v1\/environments\/[^/]+\/history\/diff$/, (_m, _b, query) => versionDiff(query.get("from") ?? "", query.get("to") ?? "")],
  ["POST", /^\/v1\/environment-check$/, (_m, body) => checked((body as { environmentJson: string }).environmentJson)],
  ["GET", /^\/v1\/environment-schema$/, () => schema],
  ["GET", /^\/v1\/snapshots$/, () => page(snapshots)],
  ["POST", /^\/v1\/agents\/[^/]+\/snapshots$/, () => proposal],
  ["GET", /^\/v1\/agents\/[^/]+\/environment$/, () => proposed],
  ["GET", /^\/v1\/team\/external-id$/, () => ({ externalId: "aloft-1f0e2d3c-4b5a" })],
  ["GET", /^\/v1\/mcp-servers$/, () => page(mcpServers)],
  ["POST", /^\/v1\/mcp-servers\/[^/]+\/test$/, ([path]) => mcpTest(path ?? "")],
  ["GET", /^\/v1\/agents\/[^/]+\/mcp-servers$/, () => page(agentMcpServers)],
  ["GET", /^\/v1\/agents\/[^/]+\/context$/, () => agentContext],
  ["GET", /^\/v1\/secrets$/, (_m, _b, query) => page(query.has("environmentId") ? [...secrets, ...environmentSecrets] : secrets)],
  ["GET", /^\/v1\/rules\/(me|team)\/([^/]+)$/, ([, owner, name]) => ({ owner, name, text: rules[`${owner}/${name}`] ?? "" })],
];

/** In the state "slow", replies are delayed and arrive out of order. */
const taken = (path: string) => (state === "slow" ? new Promise((r) => setTimeout(r, 60 + ((path.length * 37) % 240))) : undefined);

const never = new Promise<never>(() => undefined);

export const demonstration: Transport = {
  ahead: () => undefined,
  forget: () => undefined,
  async put(path, contents, headers, sent) {
    sent(1);
    return this.json("PUT", path, contents, headers);
  },
  async json(method, path, body) {
    if (path === "/v1/session") return method !== "DELETE" && location.pathname !== "/sign-in" ? signedIn("owner") : signedOut;
    if (state === "loading") return never;
    if (state === "offline") throw new Failure(0, "unreachable", "the server cannot be reached");
    if (state === "error") throw new Failure(500, "internal", "internal error");
    await taken(path);
    const url = new URL(path, "http://demo");
    for (const [m, pattern, reply] of routes) {
      const match = m === method ? url.pathname.match(pattern) : null;
      if (match) return reply(match, body, url.searchParams);
    }
    if (method === "GET") throw new Failure(404, "not_found", `there is nothing at ${url.pathname}`);
    return { id: "" };
  },
  async bytes(path) {
    if (state === "loading") return never;
    if (state === "offline") throw new Failure(0, "unreachable", "the server cannot be reached");
    await taken(path);
    return bytesOf(new URL(path, "http://demo").searchParams.get("path") ?? "");
  },
  async *pieces(path, signal) {
    const url = new URL(path, "http://demo");
    const journal = /^\/v1\/agents\/([^/]+)\/events$/.exec(url.pathname);
    await taken(path);
    if (journal?.[1]) {
      const { after = 0, before = Infinity, last = 0 } = Object.fromEntries([...url.searchParams].map(([k, v]) => [k, Number(v)]));
      const all = journalOf(journal[1]);
      const part = all.slice(last ? Math.max(after, Math.min(before - 1, all.length) - 4 * last) : after, before - 1); // sequence numbers start at 1
      yield (last ? settled(part).slice(-last) : part).map((e) => `${JSON.stringify(e)}\n`).join("");
      if (url.searchParams.get("follow") !== "true") return;
      for (let seq = 100_000; state === "stream" && !signal.aborted; seq++) {
        await new Promise((r) => setTimeout(r, 20));
        const event = (seq: number, kind: string, data: object) => `${JSON.stringify({ seq, time: new Date().toISOString(), kind, data })}\n`;
        yield event(2 * seq, "text.delta", { text: seq % 40 ? " word" : seq % 80 ? "\n\n```ts\nconst so =" : "\n```\n\nAnd" });
        yield event(2 * seq + 1, "call.delta", { callId: "c8", stdout: ` \u001b[32m✓\u001b[0m test number ${seq}\n` });
      }
    }
    if (url.pathname.endsWith("/log")) yield buildLog;
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
  },
  source: (address) => (address.startsWith("blob:") ? address : "data:image/svg+xml," + encodeURIComponent(picture)),
  socket: (path) => (path.endsWith("/vnc") ? desktop(path.includes(idOf(9))) : shell()),
};
