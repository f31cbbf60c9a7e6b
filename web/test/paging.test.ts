import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openBrowser, patience, serveDemo } from "./browser";

let browser: Browser;
let demo: Awaited<ReturnType<typeof serveDemo>>;
beforeAll(async () => {
  [demo, browser] = await Promise.all([serveDemo(), openBrowser()]);
});
afterAll(async () => {
  await browser.close();
  await demo.close();
});

const opened = async (width: number) => {
  const context = await browser.newContext({ viewport: { width, height: 800 }, reducedMotion: "reduce" });
  context.setDefaultTimeout(patience);
  return context;
};
const long = "/agents/bc-00000000-0000-4000-8000-00000000000a";

/** Returns the visible turn lines, each with its distance from the top of the conversation. */
const inSight = (page: Page) =>
  page.evaluate<[string, number][]>(`(() => {
    const box = document.querySelector(".conversation [role=log]").getBoundingClientRect();
    return [...document.querySelectorAll(".turn-line")].map((e) => [e.firstChild.textContent, e.getBoundingClientRect().top - box.top]).filter(([, y]) => y >= 0 && y < box.height);
  })()`);

test("a long conversation opens at its end, and what came before comes without a jump", { timeout: 3 * patience }, async () => {
  const page = await (await opened(1280)).newPage();
  await page.goto(demo.url + long);
  await page.locator(".ended").waitFor();
  await page.locator(".older").waitFor({ state: "attached" });
  const newest = (await inSight(page)).at(-1)?.[0] ?? "";
  const last = Number(newest.replace(/\D/g, ""));
  expect(last).toBeGreaterThan(1_000); // the number counts all turns, although few are loaded
  await page.locator(".conversation [role=log]").hover();
  let lowest = last;
  for (let i = 0; i < 40 && lowest > last - 120; i++) {
    const before = new Map(await inSight(page));
    await page.mouse.wheel(0, -500);
    // The page has scrolled by the wheel's distance, and items loaded above do not move it.
    await expect.poll(async () => {
      const now = await inSight(page);
      const both = now.filter(([name]) => before.has(name));
      lowest = Number(now[0]?.[0].replace(/\D/g, "") ?? last);
      return both.length > 0 && both.every(([name, y]) => Math.abs(y - (before.get(name) ?? 0) - 500) < 3);
    }, { timeout: patience, message: `after ${i} turns of the wheel: ${JSON.stringify([...before])}` }).toBe(true);
  }
  expect(lowest).toBeLessThanOrEqual(last - 120);
  const numbers = (await inSight(page)).map(([name]) => Number(name.replace(/\D/g, "")));
  expect(numbers).toEqual(numbers.map((_, i) => (numbers[0] ?? 0) + i)); // none is missing
  await page.context().close();
});

test("of a diff of 50,000 lines as much is drawn as is in sight, and its end is within reach", { timeout: 3 * patience }, async () => {
  const page = await (await opened(1280)).newPage();
  await page.goto(`${demo.url}/agents/bc-00000000-0000-4000-8000-000000000066/changes`);
  const files = 'document.querySelector(".scroll.files")';
  const drawn = () => page.evaluate<number>(`${files}.querySelectorAll(".diff-line, .pair").length`);
  for (const view of ["Inline", "Side by side"]) {
    await page.getByRole("button", { name: view }).click();
    await page.evaluate(`${files}.scrollTo(0, 0)`);
    await page.getByText("line0 =").first().waitFor();
    await page.evaluate(`${files}.scrollTo(0, ${files}.scrollHeight)`);
    await page.getByText("line24999 =").last().waitFor();
    expect(await drawn()).toBeLessThan(1_000);
    // A comment that is being written survives scrolling away.
    await page.getByRole("button", { name: "Comment on line 25000" }).last().click();
    await page.getByRole("textbox", { name: "What should be different here?" }).fill("why so many?");
    await page.evaluate(`${files}.scrollTo(0, 0)`);
    await page.getByText("line0 =").first().waitFor();
    expect(await drawn()).toBeLessThan(1_000);
    await page.evaluate(`${files}.scrollTo(0, ${files}.scrollHeight)`);
    expect(await page.getByRole("textbox", { name: "What should be different here?" }).inputValue()).toBe("why so many?");
    await page.getByRole("button", { name: "Cancel" }).click();
  }
  await page.context().close();
});

test("whoever is at the end of what is being written stays there, and whoever reads above it is left alone", { timeout: 3 * patience }, async () => {
  const page = await (await opened(1280)).newPage();
  await page.goto(`${demo.url}/agents/bc-00000000-0000-4000-8000-000000000001?demo=stream`);
  const log = 'document.querySelector(".conversation [role=log]")';
  const away = () => page.evaluate<number>(`${log}.scrollHeight - ${log}.scrollTop - ${log}.clientHeight`);
  const high = () => page.evaluate<number>(`${log}.scrollHeight`);
  const longer = (than: number) => expect.poll(high, { timeout: patience }).toBeGreaterThan(than);
  await page.locator(".conversation .entry").first().waitFor();
  for (let i = 0; i < 3; i++) {
    await longer((await high()) + 40);
    expect(await page.evaluate(`new Promise((drawn) => requestAnimationFrame(() => setTimeout(() => drawn(${log}.scrollHeight - ${log}.scrollTop - ${log}.clientHeight), 0)))`)).toBeLessThan(48);
  }
  await page.locator(".conversation [role=log]").focus();
  const newest = page.getByRole("button", { name: "Newest" });
  // After scrolling a little, the row with the comment is still drawn.
  await expect.poll(async () => {
    if (await newest.isVisible()) return true;
    for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowUp");
    return newest.isVisible();
  }, { timeout: patience, interval: 2_000 }).toBe(true);
  const top = () => page.evaluate<number>(`${log}.scrollTop`);
  let at = -1;
  await expect.poll(async () => at - (at = await top()), { timeout: patience }).toBe(0); // the scrolling has ended
  await longer((await high()) + 80);
  expect(await top()).toBe(at);
  await newest.click();
  await expect.poll(away, { timeout: patience }).toBeLessThan(48);
  await page.context().close();
});

test("a click reaches what was pressed, though more is written before the release", { timeout: 3 * patience }, async () => {
  const page = await (await opened(1280)).newPage();
  await page.goto(`${demo.url}/agents/bc-00000000-0000-4000-8000-000000000001?demo=stream`);
  const log = 'document.querySelector(".conversation [role=log]")';
  const high = () => page.evaluate<number>(`${log}.scrollHeight`);
  const call = page.locator(".call-head").last();
  await call.waitFor();
  const before = await call.getAttribute("aria-expanded");
  const place = () => call.boundingBox();
  await expect.poll(async () => {
    await page.mouse.up();
    await call.hover();
    await page.mouse.down();
    return call.evaluate((e) => e.matches(":active")); // it may have moved before it was pressed
  }, { timeout: patience }).toBe(true);
  const [pressed, than] = [await place(), await high()];
  await expect.poll(high, { timeout: patience }).toBeGreaterThan(than + 80);
  expect(await place()).toEqual(pressed);
  await page.mouse.up();
  expect(await call.getAttribute("aria-expanded")).not.toBe(before);
  // The log is scrolled to its end again.
  await expect.poll(() => page.evaluate<number>(`${log}.scrollHeight - ${log}.scrollTop - ${log}.clientHeight`), { timeout: patience }).toBeLessThan(48);
  await page.context().close();
});
