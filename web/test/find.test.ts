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

async function open(path: string, width = 1280): Promise<Page> {
  const context = await browser.newContext({ viewport: { width, height: 800 }, reducedMotion: "reduce" });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  await page.goto(demo.url + path);
  await page.locator(".conversation .entry").first().waitFor();
  return page;
}

/** Waits until the row to which a jump led is visible. */
const inSight = (page: Page, what: string) =>
  expect.poll(() => page.evaluate<boolean>(`(() => {
    const row = document.querySelector(".entry[data-target]");
    const box = document.querySelector(".conversation [role=log]").getBoundingClientRect();
    if (!row || !row.textContent.includes(${JSON.stringify(what)})) return false;
    const at = row.getBoundingClientRect();
    return at.top >= box.top - 1 && at.top < box.bottom;
  })()`), { timeout: patience }).toBe(true);

test.each([1280, 360])("search finds what is out of sight and folded, %i pixels wide", { timeout: 2 * patience }, async (width) => {
  const page = await open(`/agents/${id(1)}`, width);
  await page.getByRole("button", { name: "Search this conversation" }).click();
  const field = page.getByRole("searchbox", { name: "Search this conversation" });
  await field.fill("backoff");
  await page.getByRole("status").filter({ hasText: "found" }).waitFor();
  await field.press("Enter");
  await page.getByRole("status").filter({ hasText: / of / }).waitFor();
  expect(await page.evaluate<number>(`CSS.highlights.get("found")?.size ?? 0`)).toBeGreaterThan(0);
  await field.fill("twice as long each time"); // in the diff of an edit
  await field.press("Enter");
  await inSight(page, "Twice as long each time");
  await field.press("Escape");
  await field.waitFor({ state: "detached" });
  expect(await page.evaluate<number>(`CSS.highlights.get("found")?.size ?? 0`)).toBe(0);
  await page.context().close();
});

test("search reaches the beginning of a long conversation, and a link opens at its turn", { timeout: 3 * patience }, async () => {
  const page = await open(`/agents/${id(10)}`);
  await page.keyboard.press("/");
  await page.keyboard.type("turn 3");
  const found = page.getByRole("status").filter({ hasText: /^[\d,]+ found$/ });
  await found.waitFor();
  expect(Number((await found.textContent())?.replace(/\D/g, ""))).toBeGreaterThan(100); // turns 3, 30 to 39 and 300 to 399
  await page.goto(`${demo.url}/agents/${id(10)}#turn-1100`);
  await expect.poll(() => page.evaluate<boolean>(`(() => {
    const box = document.querySelector(".conversation [role=log]")?.getBoundingClientRect();
    return !!box && [...document.querySelectorAll(".turn-line")].some((e) => e.textContent.startsWith("Turn 1,100") || e.textContent.startsWith("Turn 1100")
      && e.getBoundingClientRect().top > box.top && e.getBoundingClientRect().top < box.bottom);
  })()`), { timeout: 2 * patience }).toBe(true);
  await page.context().close();
});

test("keys go to failures and turns, fold, copy and open the outline", { timeout: 2 * patience }, async () => {
  const page = await open(`/agents/${id(1)}`);
  await page.keyboard.press("f");
  await inSight(page, "Glob");
  await page.keyboard.press("k");
  await expect.poll(() => page.locator(".entry[data-target]").textContent(), { timeout: patience }).not.toContain("Glob");
  await page.keyboard.press("c");
  await page.locator(".call-body").first().waitFor({ state: "detached" });
  await page.keyboard.press("c");
  await page.locator(".call-body").first().waitFor();
  await page.keyboard.press("o");
  const outline = page.getByRole("dialog", { name: "Outline" });
  await outline.getByRole("button", { name: "Two questions are independent" }).click();
  await inSight(page, "Two questions are independent");
  const message = page.locator(".entry[data-target]");
  await message.hover();
  await message.getByRole("button", { name: "Copy message" }).click();
  expect(await page.evaluate(`navigator.clipboard.readText()`)).toContain("Two questions are independent of each other.");
  await page.keyboard.press("2");
  await page.waitForURL(/\/changes$/);
  await page.keyboard.press("g");
  await page.keyboard.press("a");
  await page.waitForURL(/\/agents$/);
  await page.context().close();
});

test.each([1280, 360])("the header leads from a failed check to a follow-up, %i pixels wide", { timeout: 2 * patience }, async (width) => {
  const page = await open(`/agents/${id(105)}`, width);
  const strip = page.getByRole("list", { name: "Pull requests" });
  await strip.getByText("1 of 4 checks failed").waitFor();
  await strip.getByText("Changes requested").waitFor();
  expect(await page.title()).toContain("✓ ");
  expect(await page.locator("link[rel=icon]").getAttribute("href")).toBe("/icon-green.svg");
  await strip.getByRole("button", { name: "Fix failing checks" }).click();
  await page.getByText("The follow-up was sent.").waitFor();
  await strip.getByRole("button", { name: "Address review" }).click();
  await page.getByRole("link", { name: "All agents" }).click();
  await expect.poll(() => page.title(), { timeout: patience }).not.toContain("✓ ");
  expect(await page.locator("link[rel=icon]").getAttribute("href")).toBe("/icon.svg");
  await page.context().close();
});

test("the list returns to where it was left, and its filters are in the address", { timeout: 2 * patience }, async () => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce" });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  await page.goto(`${demo.url}/agents?status=done&q=invoice`);
  await page.locator(".agent-row", { hasText: "invoice" }).first().waitFor();
  expect(await page.getByRole("button", { name: "Finished", exact: true }).getAttribute("aria-pressed")).toBe("true");
  expect(await page.getByRole("searchbox").inputValue()).toBe("invoice");
  await page.getByRole("searchbox").fill("cart");
  await page.waitForURL(/q=cart/);
  await page.locator(".agent-row", { hasText: "cart" }).first().waitFor();
  const list = page.locator(".scroll:has(.agents-list)");
  await list.evaluate((el) => ((el as unknown as { scrollTop: number }).scrollTop = 3_000));
  await expect.poll(() => page.locator(".agent-row").first().getAttribute("data-index"), { timeout: patience }).not.toBe("0");
  const at = await list.evaluate((el) => (el as unknown as { scrollTop: number }).scrollTop);
  const first = page.locator(".agent-row a:visible").nth(15);
  await first.click();
  await page.locator(".conversation").waitFor();
  await page.goBack();
  await page.waitForURL(/status=done.*q=cart|q=cart.*status=done/);
  await page.locator(".agent-row", { hasText: "cart" }).first().waitFor();
  await expect.poll(() => list.evaluate((el) => (el as unknown as { scrollTop: number }).scrollTop), { timeout: patience }).toBe(at);
  await context.close();
});

test("a viewed file is collapsed, and stays viewed", { timeout: 2 * patience }, async () => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce" });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  await page.goto(`${demo.url}/agents/${id(1)}/changes`);
  const file = page.locator(".file").first();
  await file.locator(".diff").waitFor();
  await file.getByRole("checkbox", { name: /^Viewed/ }).check();
  await file.locator(".diff").waitFor({ state: "detached" });
  await page.getByText(/^1 of \d+ viewed$/).waitFor();
  await page.reload();
  await page.getByText(/^1 of \d+ viewed$/).waitFor();
  await page.getByRole("button", { name: "Collapse all" }).click();
  await page.locator(".file .diff").first().waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Expand all" }).click();
  await file.locator(".diff").waitFor();
  await context.close();
});
