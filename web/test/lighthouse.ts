import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import { expect, test } from "vitest";
import { patience } from "./browser";
import { Server } from "./server";

// Lighthouse scores of the list and of an agent with many turns, on a phone and
// on a desktop, with a real server and an empty cache (`make web-lighthouse`).
// The scores depend on the machine. Each is the median of RUNS runs.
const lighthouse = join(import.meta.dirname, "../../.bin/lighthouse/node_modules/lighthouse/cli/index.js");
const run = promisify(execFile);

// traced repeats a Lighthouse run if Chromium has recorded no trace, which
// happens occasionally.
async function traced(once: () => Promise<unknown>) {
  for (let left = 3; ; left--) {
    try {
      return await once();
    } catch (e) {
      if (!left || !String(e).includes("NO_NAVSTART")) throw e;
    }
  }
}
const runs = Number(process.env["RUNS"] ?? 1);
const least = 95; // of 100
const turns = 60;
const script = `
scripts:
  - match: Count
    turns:
${Array.from({ length: turns }, (_, i) => `      - text: "Step ${i} of the way: I look at what the module does, and then at who calls it. ${"The counter is read before it is written. ".repeat(6)}"\n        calls: [{tool: Shell, args: {command: "seq ${i} ${i + 200}", description: "count from ${i}"}}]`).join("\n")}
      - text: All is counted.
  - match: Say
    turns:
      - text: It is said.
`;

type Report = { categories: Record<string, { score: number }>; audits: Record<string, { displayValue?: string; score: number | null; title: string }> };

test("scores", { timeout: 3_600_000 }, async () => {
  if (!existsSync(lighthouse)) throw new Error("Lighthouse is not there: run make web-lighthouse");
  const server = await Server.start(script);
  const dir = mkdtempSync(join(tmpdir(), "aloft-lighthouse-"));
  const port = 20_000 + Math.floor(Math.random() * 12_000);
  const browser = await chromium.launchPersistentContext(dir, {
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", `--remote-debugging-port=${port}`],
  });
  const low: string[] = [];
  try {
    browser.setDefaultTimeout(patience);
    const page = await browser.newPage();
    await page.goto(server.link);
    await page.getByRole("heading", { name: "Your account" }).waitFor();
    const call = async (method: string, path: string, body?: unknown) =>
      (await fetch(server.url + path, { method, headers: { Authorization: `Bearer ${server.key()}`, "Content-Type": "application/json" }, body: body ? JSON.stringify(body) : null })).json() as Promise<{ agent: { id: string }; runStatus?: string }>;
    const begin = async (text: string) => (await call("POST", "/v1/agents", { prompt: { text }, repos: [{ url: `file://${server.repo}`, startingRef: "main" }] })).agent.id;
    const ids: string[] = [];
    for (let i = 0; i < 12; i++) ids.push(await begin(`Say ${i} of the many things that there are to say`));
    const long = await begin("Count as far as you can");
    const ended = async (id: string) => /FINISHED|ERROR/.exec(JSON.stringify(await call("GET", `/v1/agents/${id}/runs`)));
    for (const id of [...ids, long]) await expect.poll(() => ended(id), { timeout: 10 * patience, interval: 500 }).toBeTruthy();
    await page.goto("about:blank");

    for (const [what, path] of [["list", "/agents"], ["agent", `/agents/${long}`]] as const) {
      for (const device of ["phone", "desktop"] as const) {
        const reports: Report[] = [];
        for (let n = 0; n < runs; n++) {
          const out = join(dir, "report.json");
          const flags = [`--port=${port}`, "--output=json", `--output-path=${out}`, "--quiet", "--max-wait-for-load=60000", "--only-categories=performance,accessibility,best-practices", ...(device === "desktop" ? ["--preset=desktop"] : [])];
          await traced(() => run(process.execPath, [lighthouse, server.url + path, ...flags])); // in a separate process, since this thread controls the browser
          reports.push(JSON.parse(readFileSync(out, "utf8")) as Report);
        }
        const report = reports.sort((a, b) => (a.categories["performance"]?.score ?? 0) - (b.categories["performance"]?.score ?? 0))[reports.length >> 1];
        if (!report) continue;
        const scores = Object.entries(report.categories).map(([name, { score }]) => [name, Math.round(score * 100)] as const);
        const facts = ["first-contentful-paint", "largest-contentful-paint", "total-blocking-time", "cumulative-layout-shift", "speed-index", "total-byte-weight"].map((name) => report.audits[name]?.displayValue ?? "").join(", ");
        console.log(`${what} on a ${device}: ${scores.map(([name, score]) => `${name} ${score}`).join(", ")} (${facts})`);
        for (const [name, score] of scores) if (score < least) low.push(`${what} on a ${device}: ${name} ${score}`);
        if (process.env["AUDITS"]) for (const [name, a] of Object.entries(report.audits)) if (a.score !== null && a.score < 0.9) console.log(`  ${name}: ${a.score} ${a.title} ${a.displayValue ?? ""}`);
      }
    }
  } finally {
    await browser.close();
    await server.close();
    rmSync(dir, { recursive: true, force: true });
  }
  expect(low).toEqual([]);
});
