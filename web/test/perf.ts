import { writeFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { expect, test } from "vitest";
import { openBrowser, patience, serveDemo, shifted } from "./browser";

// Measurements of the dashboard in a browser. They depend on the machine, so
// each is shown with a baseline from the same run. `npm run --prefix web perf`
// prints them. Frame rates are measured in the demo. `make bench`, which passes
// the address of its server, writes all of them to a file.
const id = (n: number) => `bc-00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;
const server = { url: process.env["ALOFT_URL"] ?? "", key: process.env["ALOFT_API_KEY"] ?? "", long: process.env["LONG_AGENT"] ?? "", short: process.env["SHORT_AGENT"] ?? "" };
const rounds = 5;
const watched = 3_000; // duration of a measurement, in milliseconds
const due = 1_000 / 60; // duration of a frame, in milliseconds

type Frames = { rate: number; p50: number; p95: number; late: number; work: number };
const figures: Record<string, number | Frames> = {};
const beside: Record<string, number | Frames> = {};
const median = (all: number[]) => all.sort((a, b) => a - b)[all.length >> 1] ?? 0;

/** Measures a page's frames while each frame scrolls the page by the given number of pixels, or 0. */
async function watch(page: Page, scrolled = "", step = 0): Promise<Frames> {
  const inside = await page.context().newCDPSession(page);
  await inside.send("Performance.enable", { timeDomain: "threadTicks" });
  const worked = async () => (await inside.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration")?.value ?? 0; // seconds
  const before = await worked();
  const took = await page.evaluate<number[]>(`new Promise((done) => {
    const box = ${scrolled ? `document.querySelector("${scrolled}")` : "undefined"};
    const took = [];
    let began = 0, last = 0;
    const tick = (now) => {
      if (last) took.push(now - last);
      began ||= now;
      last = now;
      if (box) box.scrollTop += ${step};
      if (now - began < ${watched}) requestAnimationFrame(tick);
      else done(took);
    };
    requestAnimationFrame(tick);
  })`);
  const work = ((await worked()) - before) * 1_000;
  await inside.detach();
  const all = took.reduce((a, b) => a + b, 0);
  took.sort((a, b) => a - b);
  const late = took.filter((t) => t > 1.5 * due).length; // the frame came after the next was due
  return { rate: (took.length * 1_000) / all, p50: median(took), p95: took[Math.floor(took.length * 0.95)] ?? 0, late: late / took.length, work: work / took.length };
}

const told = ({ rate, p50, p95, late, work }: Frames) =>
  `${rate.toFixed(1)} frames a second, half within ${p50.toFixed(1)} ms, 95 of 100 within ${p95.toFixed(1)} ms, ${(late * 100).toFixed(1)}% late, ${work.toFixed(1)} ms of the page's thread for each`;

function frames(name: string, what: string, found: Frames, yardstick: Frames): void {
  figures[name] = found;
  beside[name] = yardstick;
  console.log(`${what}: ${told(found)}\n  beside it: ${told(yardstick)}`);
}

/** Opens another page of the dashboard, and returns the time until its first content is drawn. */
const goes = (page: Page, path: string, until: string) =>
  page.evaluate<number>(`new Promise((done) => {
    const began = performance.now();
    history.pushState(null, "", "${path}");
    dispatchEvent(new PopStateEvent("popstate"));
    const look = () => (document.querySelector("${until}") ? requestAnimationFrame(() => done(performance.now() - began)) : requestAnimationFrame(look));
    look();
  })`);

async function opens(page: Page, agent: string): Promise<number> {
  const took: number[] = [];
  for (let i = 0; i < rounds; i++) {
    await goes(page, "/agents", ".agent-row");
    took.push(await goes(page, `/agents/${agent}`, ".ended"));
  }
  return median(took);
}

/** Measures the first load with an empty cache, until the first content is drawn. */
async function loads(browser: Browser, path: string, until: string): Promise<number> {
  const took: number[] = [];
  for (let i = 0; i < rounds; i++) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    if (server.key) await context.request.post(`${server.url}/v1/session`, { data: { key: server.key } });
    const page = await context.newPage();
    await page.addInitScript(`window.seen = new Promise((done) => {
      const look = () => requestAnimationFrame(() => (document.querySelector("${until}") ? done(performance.now()) : look()));
      look();
    })`);
    await page.goto(server.url + path);
    const seen = await page.evaluate<number>("window.seen");
    took.push(seen);
    if (until === ".agent-row") {
      figures["firstLoad"] = await page.evaluate<number>(`performance.getEntries().filter((e) => e.entryType === "navigation" || e.name.includes("/assets/")).filter((e) => e.startTime < ${seen}).reduce((n, e) => n + e.encodedBodySize, 0)`);
    }
    await context.close();
  }
  return median(took);
}

test("how fast it is", { timeout: 300_000 }, async () => {
  const [browser, demo] = await Promise.all([openBrowser(), serveDemo(true)]);
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    const show = async (path: string) => {
      await page.goto(demo.url + path);
      await page.locator("h1").first().waitFor();
      await page.locator(".skeleton").first().waitFor({ state: "hidden" });
      return watch(page);
    };
    for (const [name, what, path] of [["list", "the list, 20 agents at work", "/agents"], ["conversation", "a conversation, 50 pieces of text and 50 of output a second", `/agents/${id(1)}`]] as const) {
      const still = await show(path);
      frames(name, what, await show(`${path}?demo=stream`), still);
    }
    await page.goto(`${demo.url}/agents`);
    await page.locator(".agent-row").first().waitFor();
    const scrolls = await watch(page, ".scroll", 120);
    await page.goto(`${demo.url}/icon.svg`);
    await page.goto("about:blank");
    await page.setContent(`<div id="box" style="height:860px;overflow:auto">${"<p>A line of text that stands for an agent</p>".repeat(5_000)}</div>`);
    frames("scroll", "the list of 5,000 agents, scrolled", scrolls, await watch(page, "#box", 120));

    if (server.url) {
      figures["firstAgent"] = await loads(browser, "/agents", ".agent-row");
      beside["firstAgent"] = await loads(browser, "/icon.svg", "svg");
      await context.request.post(`${server.url}/v1/session`, { data: { key: server.key } });
      await page.goto(server.url);
      await page.locator(".agent-row").first().waitFor();
      figures["opens"] = await opens(page, server.long);
      beside["opens"] = await opens(page, server.short);
    } else {
      for (const [what, n] of [["1,000", 101], ["10,000", 10], ["100,000", 102]] as const) {
        await page.goto(`${demo.url}/agents/${id(n)}`); // only the demonstration generates its own events
        await page.locator(".ended").waitFor();
        console.log(`an agent of ${what} events is open, at its end: ${(await opens(page, id(n))).toFixed(0)} ms`);
      }
    }
  } finally {
    await browser.close();
    await demo.close();
  }
  const out = process.env["FIGURES"];
  if (out) writeFileSync(out, JSON.stringify({ ...figures, yardstick: beside }));
});

// Measures on a phone, where the same shift is a larger part of the screen,
// against a server that replies slowly and out of order.
test("nothing moves by itself while a view loads", { timeout: 3 * patience }, async () => {
  const [browser, demo] = await Promise.all([openBrowser(), serveDemo()]);
  const context = await browser.newContext({ viewport: { width: 360, height: 740 }, reducedMotion: "reduce" });
  const moved: Record<string, number> = {};
  const agent = `/agents/${id(1)}`;
  const left = ["/agents", agent, `/agents/${id(10)}`, `${agent}/changes`, `${agent}/files?file=src/outbox/deliver.ts`, `${agent}/machine`, "/approvals", "/environments", "/environments/env-1", "/settings", "/account", "/team"];
  const lane = async () => {
    const page = await context.newPage();
    for (let path = left.shift(); path; path = left.shift()) {
      await page.goto(`${demo.url}${path}${path.includes("?") ? "&" : "?"}demo=slow`);
      await page.locator("h1").first().waitFor();
      await page.locator(".skeleton").first().waitFor({ state: "hidden" });
      await page.waitForLoadState("networkidle");
      const shift = await page.evaluate<number>(shifted);
      if (shift > 0.02) moved[path] = shift;
    }
  };
  await Promise.all([lane(), lane()]);
  await browser.close();
  await demo.close();
  expect(moved).toEqual({});
});
