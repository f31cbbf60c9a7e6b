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

const options = (page: Page, label: string) => page.getByLabel(label, { exact: true }).locator("option").allTextContents();
const narrow = (page: Page) => page.evaluate<boolean>("document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll('.dialog')].every((d) => d.scrollWidth <= d.clientWidth)");

test.each([1280, 360])("a model's parameters are chosen for a new agent, %i pixels wide", async (width) => {
  const page = await open("/agents", width);
  await page.keyboard.press("Control+e");
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Effort", { exact: true }).waitFor(); // the default model has this parameter
  expect(await options(page, "Effort")).toEqual(["Default (Medium)", "Low", "High"]);
  expect(await options(page, "Thinking")).toEqual(["Default", "On", "Off"]);
  await dialog.getByLabel("Effort", { exact: true }).selectOption("high");
  await dialog.getByLabel("Model", { exact: true }).selectOption("local");
  await dialog.getByLabel("Effort", { exact: true }).waitFor({ state: "detached" });
  await dialog.getByLabel("Model", { exact: true }).selectOption("opus");
  expect(await dialog.getByLabel("Effort", { exact: true }).inputValue()).toBe(""); // a choice applies to one model only
  expect(await narrow(page)).toBe(true);
  await page.context().close();
});

test.each([1280, 360])("another model and its parameters go with a follow-up, %i pixels wide", async (width) => {
  const page = await open(`/agents/${id(5)}`, width);
  await page.getByRole("button", { name: "Model: opus" }).click();
  const dialog = page.getByRole("dialog", { name: "Choose a model" });
  await dialog.getByLabel("Thinking", { exact: true }).selectOption("on");
  expect(await narrow(page)).toBe(true);
  await dialog.getByRole("button", { name: "Use model" }).click();
  await page.getByText("From this prompt on: Claude Opus, Thinking: On").waitFor();
  expect(await narrow(page)).toBe(true);
  // The model is shown on a queued prompt. The demo server would send it at once.
  await page.evaluate(`(() => {
    const set = Storage.prototype.setItem;
    Storage.prototype.setItem = function (name, value) {
      if (name.startsWith("aloft.queue.")) window.said = value;
      return set.call(this, name, value);
    };
  })()`);
  await page.getByLabel("Follow-up").fill("and now in Spanish");
  await page.keyboard.press("Control+Enter");
  const said = () => page.evaluate<string | undefined>("window.said");
  await expect.poll(said, { timeout: patience }).toBeTruthy();
  expect((JSON.parse((await said()) ?? "[]") as unknown[])[0]).toMatchObject({ text: "and now in Spanish", model: { id: "opus", params: [{ id: "thinking", value: "on" }] } });
  await page.getByText("From this prompt on:").waitFor({ state: "detached" });
  await page.context().close();
});

test("a failed run is retried with other parameters of its model", async () => {
  const page = await open(`/agents/${id(3)}`, 360);
  await page.getByRole("button", { name: "Retry with…" }).click();
  await page.getByLabel("Model", { exact: true }).selectOption("opus");
  await page.getByLabel("Effort", { exact: true }).selectOption("low");
  expect(await narrow(page)).toBe(true);
  await page.locator(".dialog").getByRole("button", { name: "Retry run" }).click();
  await page.locator(".dialog").waitFor({ state: "detached" });
  await page.context().close();
});
