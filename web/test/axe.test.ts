import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openBrowser, patience, serveDemo, shifted, show, views } from "./browser";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const wanted = (process.env["VIEWS"] ?? "").split(" ").filter(Boolean);

let browser: Browser;
let demo: Awaited<ReturnType<typeof serveDemo>>;
beforeAll(async () => {
  [demo, browser] = await Promise.all([serveDemo(), openBrowser()]);
});
afterAll(async () => {
  await browser.close();
  await demo.close();
});

// Every view must conform to WCAG 2.2 AA, also in dark mode and on a phone,
// under the server's content security policy. It must log no errors to the
// console, and must not shift by itself.
describe.each([
  { name: "light", colorScheme: "light", width: 1280, rules: "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']" },
  { name: "dark", colorScheme: "dark", width: 1280, rules: "['color-contrast']" },
  { name: "phone", colorScheme: "light", width: 360, rules: "['target-size', 'scrollable-region-focusable', 'color-contrast']" },
] as const)("$name", ({ name, colorScheme, width, rules }) => {
  test("axe finds nothing", { timeout: 600_000 }, async () => {
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 }, reducedMotion: "reduce" });
    context.setDefaultTimeout(patience);
    const found: Record<string, unknown> = {};
    const left = views.filter((v) => wanted.length === 0 || wanted.includes(v.name)).filter((v) => name === "light" || !/-(loading|error|offline)$/.test(v.name)); // which look alike
    const lane = async () => {
      const page = await context.newPage();
      let said: string[] = [];
      page.on("console", (m) => m.type() === "error" && said.push(m.text()));
      page.on("pageerror", (e) => said.push(e.message));
      for (let view = left.shift(); view; view = left.shift()) {
        said = [];
        await show(page, demo.url, view);
        await page.evaluate(axe); // by the debugger, which no policy holds
        const result = await page.evaluate<AxeResults>(`axe.run({ runOnly: ${rules}, resultTypes: ['violations'] })`);
        const wider = await page.evaluate("document.documentElement.scrollWidth > innerWidth");
        const shift = await page.evaluate<number>(shifted);
        if (result.violations.length > 0 || said.length > 0 || wider || shift > 0.5) {
          found[view.name] = { wider, said, shift, axe: result.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 160)).slice(0, 3).join(" | ")}`) };
        }
      }
    };
    await Promise.all([lane(), lane()]);
    await context.close();
    expect(found).toEqual({});
  });
});
