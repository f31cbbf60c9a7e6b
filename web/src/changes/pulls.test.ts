import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { afterEach, expect, test, vi } from "vitest";
import { requestOf } from "../agents/Spawn";
import { Client } from "../api/client";
import type { Agent, PullRequest } from "../api/types";
import { ClientContext } from "../api/use";
import { OpenPull, PullRow } from "./Pulls";
import { rowsOf, standOf, pullRequestOf } from "./pulls";

// Replace portals: a dialog covers the page, but this test has no page.
vi.mock("react-dom", async (original) => ({ ...(await original<object>()), createPortal: (node: unknown) => node }));

const pull = (repo: string, more: Partial<PullRequest> = {}): PullRequest => ({ repoUrl: `git.test/${repo}`, branch: "aloft/x", ...more });
const agent = (repos: string[], pullRequests: PullRequest[] = []) => ({ id: "bc-1", repos: repos.map((r) => ({ url: `https://git.test/${r}` })), pullRequests }) as unknown as Agent;
afterEach(() => vi.unstubAllGlobals());
const nothing = { named: false, open: undefined, again: undefined, turning: false };

test("each repository has its row, and what the forge said last counts", () => {
  const a = agent(["a/one", "a/two"], [pull("a/one", { url: "https://git.test/1", state: "open" })]);
  const seen = [{ ...pull("a/one", { url: "https://git.test/1", state: "merged" as const }), checks: [] }];
  expect(rowsOf(a, [], seen).map((r) => [r.repo, r.pull?.state])).toEqual([["https://git.test/a/one", "merged"], ["https://git.test/a/two", undefined]]);
});

test("one that was opened here is not hidden by the attempt before it that failed", () => {
  const failed = pull("a/one", { error: { code: "forge_no_token", message: "no token" } });
  const rows = rowsOf(agent(["a/one"], [failed]), [pull("a/one", { url: "https://git.test/1", number: 1 })], [{ ...failed, checks: [] }]);
  expect(rows.map((r) => r.pull?.number)).toEqual([1]);
});

test("a draft is one only while it is open", () => {
  expect([{}, { draft: true }, { state: "merged" as const, draft: true }, { state: "closed" as const }].map(standOf)).toEqual(["open", "draft", "merged", "closed"]);
});

test("what was left empty is left to the server", () => {
  expect(pullRequestOf("https://git.test/a/one", { title: " ", body: "\n", base: "", draft: false })).toEqual({ repoUrl: "https://git.test/a/one" });
  const proposed = { repoUrl: "r", branch: "b", base: "main", title: "Mend", body: "Mended." };
  expect(pullRequestOf("r", { title: "Mend", body: "Mended.", base: "main", draft: false }, proposed)).toEqual({ repoUrl: "r" }); // fields are omitted so that follow-ups update them
  expect(pullRequestOf("r", { title: "", body: "Other.", draft: false }, proposed)).toEqual({ repoUrl: "r", body: "Other." });
  expect(pullRequestOf("r", { title: " Mend ", body: "  code\n", base: "next", draft: true })).toEqual({ repoUrl: "r", title: "Mend", body: "  code\n", base: "next", draft: true });
});

test("the card has title, number, state and checks, and no link that runs", () => {
  const p = {
    ...pull("a/one", { url: "https://git.test/1", number: 7, title: "<b>Mend</b>", state: "open", draft: true }), checksState: "failure" as const,
    checks: [{ name: "test", state: "failure" as const, url: "https://ci.test/1" }, { name: "evil", state: "success" as const, url: "javascript:alert(1)" }],
  };
  const html = renderToStaticMarkup(createElement(PullRow, { agent: agent(["a/one"]), row: { repo: "https://git.test/a/one", pull: p }, ...nothing }));
  for (const part of ["&lt;b&gt;Mend&lt;/b&gt;", "#7", "Draft", "1 of 2 checks failed", 'href="https://git.test/1"', 'href="https://ci.test/1"', "evil"]) expect(html).toContain(part);
  expect(html).not.toContain("javascript:");
});

test("the form offers what an attempt that failed has left", () => {
  const failed = pull("a/one", { title: "Mend it", base: "next", draft: true });
  const client = new Client({} as never);
  vi.stubGlobal("sessionStorage", { getItem: () => null });
  vi.stubGlobal("document", {});
  const form = createElement(OpenPull, { agent: agent(["a/one"]), row: { repo: "https://git.test/a/one", pull: failed }, branch: "aloft/x", close: () => undefined, done: () => undefined });
  const html = renderToStaticMarkup(createElement(ClientContext, { value: client }, form));
  for (const part of ['value="Mend it"', 'placeholder="next"', 'checked=""', "a/one, from aloft/x"]) expect(html).toContain(part);
});

test("a request that is sent again has the key that it had", async () => {
  const sent: unknown[] = [];
  const client = new Client({ json: (...all: unknown[]) => (sent.push(all), Promise.resolve({})) } as never);
  await client.openPullRequest("bc-1", { repoUrl: "r" }, "k1");
  expect(sent).toEqual([["POST", "/v1/agents/bc-1/pull-requests", { repoUrl: "r" }, { "Idempotency-Key": "k1" }]]);
});

test("a new agent opens a pull request only where it has a repository", () => {
  const form = { text: "do", ref: "", model: "", environment: "", runMode: "" as const, plan: false, pull: true };
  expect(requestOf(form).autoCreatePR).toBeUndefined();
  expect(requestOf({ ...form, repo: "https://git.test/a/one" }).autoCreatePR).toBe(true);
});
