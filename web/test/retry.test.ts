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

async function open(path: string, width: number): Promise<Page> {
  const page = await (await browser.newContext({ viewport: { width, height: 740 }, reducedMotion: "reduce" })).newPage();
  page.setDefaultTimeout(patience);
  await page.goto(demo.url + path);
  await page.locator("h1").first().waitFor();
  return page;
}

test.each([1280, 360])("a failed run says what can be done, %i pixels wide", async (width) => {
  const page = await open(`/agents/${id(3)}`, width);
  const banner = page.locator(".ended");
  await banner.getByRole("button", { name: "Retry", exact: true }).waitFor();
  await banner.getByRole("button", { name: "Retry with…" }).click();
  const models = page.getByLabel("Model", { exact: true });
  await models.waitFor();
  expect(await models.locator("option").count()).toBe(2);
  await page.locator(".dialog").getByRole("button", { name: "Retry run" }).click();
  await page.locator(".dialog").waitFor({ state: "detached" });
  await page.close();
});

test("attempts that failed are one line, with which it was and a countdown", async () => {
  const page = await open(`/agents/${id(17)}`, 360);
  await page.locator(".attempt").waitFor();
  expect(await page.locator(".attempt").count()).toBe(1);
  const read = async () => /^attempt 3 of 8, next in (\d+) s$/.exec((await page.locator(".attempt").textContent()) ?? "")?.[1];
  const before = Number(await read());
  expect(before).toBeGreaterThan(0);
  await expect.poll(async () => Number(await read()), { timeout: patience }).toBeLessThan(before);
  await page.close();
});
