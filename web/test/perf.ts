import { expect, test } from "vitest";
import { openBrowser, patience, serveDemo, shifted } from "./browser";

// Figures of the dashboard in a browser, on the demonstration's data: to look at,
// since they depend on the machine. npm run --prefix web perf prints them, those of
// frames beside those of an empty page of the same browser.
const id = (n: number) => `bc-00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;
const rounds = 5;
const watched = 3_000; // milliseconds of frames
const many = 20;

const frames = `new Promise((done) => {
  const began = performance.now();
  let n = 0, before = began, worst = 0;
  const tick = (now) => {
    n++;
    worst = Math.max(worst, now - before);
    before = now;
    if (now - began < ${watched}) requestAnimationFrame(tick);
    else done({ rate: (n * 1000) / (now - began), worst });
  };
  requestAnimationFrame(tick);
})`;

test("how fast it is", { timeout: 300_000 }, async () => {
  const [browser, demo] = await Promise.all([openBrowser(), serveDemo(true)]);
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    const median = (all: number[]) => all.sort((a, b) => a - b)[all.length >> 1] ?? 0;
    for (const [what, n] of [["1,000", 101], ["10,000", 10], ["100,000", 102]] as const) {
      const opens: number[] = [];
      await page.goto(`${demo.url}/agents/${id(n)}`); // the demonstration makes its events: no server's page does
      await page.locator(".ended").waitFor();
      for (let i = 0; i < rounds; i++) {
        await page.evaluate(`history.pushState(null, "", "/agents"); dispatchEvent(new PopStateEvent("popstate"))`);
        await page.locator(".agent-row").first().waitFor();
        opens.push(
          await page.evaluate<number>(`new Promise((done) => {
            const began = performance.now();
            history.pushState(null, "", "/agents/${id(n)}");
            dispatchEvent(new PopStateEvent("popstate"));
            const look = () => (document.querySelector(".ended") ? requestAnimationFrame(() => done(performance.now() - began)) : requestAnimationFrame(look));
            look();
          })`),
        );
      }
      console.log(`an agent of ${what} events is open, at its end: ${median(opens).toFixed(0)} ms (aim: 1,000)`);
    }
    const inside = await context.newCDPSession(page);
    await inside.send("Performance.enable", { timeDomain: "threadTicks" });
    const worked = async () => (await inside.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration")?.value ?? 0;
    const measure = async (what: string) => {
      const before = await worked();
      const { rate, worst } = await page.evaluate<{ rate: number; worst: number }>(frames);
      const busy = ((await worked()) - before) / watched; // seconds of a processor for each millisecond
      console.log(`frames ${what}: ${rate.toFixed(1)} a second, the longest ${worst.toFixed(0)} ms, ${(busy * 1e6 / rate).toFixed(1)} ms of the page's thread for each`);
    };
    await page.goto(`${demo.url}/icon.svg`);
    await measure("an empty page");
    const streams = `/agents/${id(1)}?demo=stream`;
    for (const [what, path] of [["the list, 20 agents at work", "/agents?demo=stream"], ["a conversation, 50 pieces a second", streams]] as const) {
      await page.goto(demo.url + path);
      await page.locator("h1").first().waitFor();
      await measure(what);
    }
    // Twenty of them in one page, which share its one thread.
    await page.setViewportSize({ width: 2560, height: 1800 });
    await page.goto(`${demo.url}/nowhere`);
    await page.evaluate(`document.body.innerHTML = '<iframe src="${streams}" style="width:20%;height:25vh;border:0"></iframe>'.repeat(${many})`);
    await page.waitForFunction(`[...document.querySelectorAll("iframe")].filter((f) => f.contentDocument?.querySelector(".entry")).length === ${many}`, undefined, { timeout: 90_000 });
    await measure(`${many} conversations, 50 pieces a second each`);
  } finally {
    await browser.close();
    await demo.close();
  }
});

// On a phone, where the same pixels are more of the screen; the server takes its time, and replies out of order.
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
