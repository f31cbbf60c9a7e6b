import { test } from "vitest";
import { openBrowser, serveDemo } from "./browser";

// Figures of the dashboard in a browser, on the demonstration's data: to look at,
// since they depend on the machine. npm run --prefix web perf prints them.
const id = (n: number) => `bc-00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;
const rounds = 5;
const watched = 3_000; // milliseconds of frames

test("how fast it is", { timeout: 300_000 }, async () => {
  const [browser, demo] = await Promise.all([openBrowser(), serveDemo()]);
  try {
    const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage();
    const median = (all: number[]) => all.sort((a, b) => a - b)[all.length >> 1] ?? 0;
    const opens: number[] = [];
    for (let i = 0; i < rounds; i++) {
      await page.goto(`${demo.url}/agents`);
      await page.locator(".agent-row").first().waitFor();
      opens.push(
        await page.evaluate<number>(`new Promise((done) => {
          const began = performance.now();
          history.pushState(null, "", "/agents/${id(10)}");
          dispatchEvent(new PopStateEvent("popstate"));
          const look = () => (document.querySelector(".ended") ? requestAnimationFrame(() => done(performance.now() - began)) : requestAnimationFrame(look));
          look();
        })`),
      );
    }
    console.log(`an agent of 10,000 events is open, at its end: ${median(opens).toFixed(0)} ms (aim: 1,000)`);
    for (const [what, path] of [["the list, 20 agents at work", "/agents?demo=stream"], ["a conversation that streams 50 pieces a second", `/agents/${id(1)}?demo=stream`]] as const) {
      await page.goto(demo.url + path);
      await page.locator("h1").first().waitFor();
      const frames = await page.evaluate<{ rate: number; worst: number }>(`new Promise((done) => {
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
      })`);
      console.log(`${what}: ${frames.rate.toFixed(0)} frames a second, the longest ${frames.worst.toFixed(0)} ms`);
    }
  } finally {
    await browser.close();
    await demo.close();
  }
});
