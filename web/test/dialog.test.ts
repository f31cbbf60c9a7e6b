import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openBrowser, patience, serveDemo } from "./browser";

let browser: Browser;
let demo: Awaited<ReturnType<typeof serveDemo>>;
beforeAll(async () => {
  [browser, demo] = await Promise.all([openBrowser(), serveDemo()]);
});
afterAll(async () => {
  await browser?.close();
  await demo?.close();
});

const id = (n: number) => `bc-00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;

async function open(path: string): Promise<Page> {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce" })).newPage();
  page.setDefaultTimeout(patience);
  await page.goto(demo.url + path);
  await page.locator("h1").first().waitFor();
  return page;
}

const within = (page: Page, where: string) => page.evaluate<boolean>(`document.activeElement?.closest(${JSON.stringify(where)}) !== null`);

test.each([
  ["/agents", "button.spawn"], // a dialog of the frame
  [`/agents/${id(1)}`, ".agent-acts button:has-text('Fork')"], // a dialog of a page in the frame
])("on %s, nothing behind a dialog takes the focus or a key, and it comes back", async (path, opener) => {
  const page = await open(path);
  await page.locator(opener).first().focus();
  await page.keyboard.press("Enter");
  await page.locator(".dialog").waitFor();
  for (const behind of ["nav a", "main a", "button.skip"]) {
    await page.evaluate(`document.querySelector("${behind}").focus()`);
    expect(await within(page, "#app"), behind).toBe(false);
  }
  for (let i = 0; i < 30; i++) {
    await page.keyboard.press("Tab");
    expect(await within(page, "#app")).toBe(false);
  }
  await page.keyboard.press("Control+k"); // opens another dialog on top
  await page.locator(".palette").waitFor();
  await page.evaluate("document.querySelector('.dialog:not(.palette) button').focus()");
  expect(await within(page, ".dialog:not(.palette)")).toBe(false);
  await page.keyboard.press("Escape");
  await page.locator(".palette").waitFor({ state: "detached" });
  expect(await within(page, ".dialog")).toBe(true);
  await page.keyboard.press("Escape");
  await page.locator(".dialog").waitFor({ state: "detached" });
  expect(await page.locator(opener).first().evaluate((e) => e === document.activeElement)).toBe(true);
  expect(await within(page, "#app")).toBe(true);
  await page.close();
});

test("no option of a question looks recommended", async () => {
  const page = await open(`/agents/${id(13)}`);
  const options = page.locator(".question .option");
  await options.first().waitFor();
  const looks = await options.evaluateAll((all) => all.map((e) => [getComputedStyle(e).backgroundColor, getComputedStyle(e).borderColor, getComputedStyle(e).fontWeight, e.matches(":focus, :checked, :has(:checked)")].join(" ")));
  expect(looks.length).toBe(2);
  expect(new Set(looks).size).toBe(1);
  expect(await within(page, ".question")).toBe(false);
  await page.close();
});
