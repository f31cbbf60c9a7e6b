import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openBrowser, patience, serveDemo } from "./browser";

// A person can only allow what was shown completely: where a request is
// truncated, on any screen, it must be opened before it can be allowed.
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
const [short, question, plan, long] = ["Move sessions to the new store", "Keep carts of guests for a month", "Split the search service", "Publish the release"] as const;

async function open(path: string, width = 1280): Promise<Page> {
  const page = await (await browser.newContext({ viewport: { width, height: 800 }, reducedMotion: "reduce" })).newPage();
  page.setDefaultTimeout(patience);
  await page.goto(demo.url + path);
  await page.locator("h1").first().waitFor();
  return page;
}

const row = (page: Page, name: string) => page.locator(".agent-row", { hasText: name });
/** The actions that a row offers: the texts of its buttons and links. */
const acts = (page: Page, name: string) => row(page, name).locator(".row-asks :is(button, a)").allTextContents();
const answered = (page: Page) => page.locator(".toast", { hasText: /Allowed|Denied|Plan approved/ });

test("a row offers to allow what it shows whole, and else to open it", async () => {
  const page = await open("/agents");
  await row(page, long).locator(".row-asks").waitFor();
  expect(await acts(page, short)).toEqual(["Allow once", "Deny"]);
  expect(await acts(page, long)).toEqual(["Review request"]);
  expect(await acts(page, plan)).toEqual(["Read plan"]);
  expect(await acts(page, question)).toEqual(["Redis, as sessions are", "PostgreSQL"]);
  expect(await row(page, question).locator(".button.first").count()).toBe(0); // no option is recommended
  await page.setViewportSize({ width: 360, height: 740 });
  await row(page, short).getByText("Review request").waitFor();
  expect(await acts(page, short)).toEqual(["Review request"]);
  expect(await acts(page, question)).toEqual(["Answer question"]);
  await page.setViewportSize({ width: 1280, height: 740 });
  await row(page, short).getByText("Allow once").click();
  await answered(page).waitFor();
  await page.close();
});

test.each([[long, "y"], [long, "n"], [plan, "y"], [question, "y"]])("in the list, %s is opened by %s and not answered", async (name, key) => {
  const page = await open("/agents");
  await row(page, name).locator(".row-asks").waitFor();
  await row(page, name).locator(":scope > a").focus();
  await page.keyboard.press(key);
  await page.waitForURL(/\/agents\/bc-/);
  expect(await answered(page).count()).toBe(0);
  await page.close();
});

test("the key y allows what the row shows whole, and not what is out of sight", async () => {
  const page = await open("/agents");
  await row(page, short).locator(".row-asks").waitFor();
  await row(page, short).locator(":scope > a").focus();
  await page.evaluate("document.querySelector('.scroll').scrollTop = 400");
  await page.keyboard.press("y");
  await page.waitForURL(/\/agents\/bc-/);
  expect(await answered(page).count()).toBe(0);
  await page.goBack();
  await row(page, short).locator(":scope > a").focus();
  await page.keyboard.press("y");
  await answered(page).waitFor();
  await page.close();
});

test.each([[1280, "/approvals"], [360, "/approvals"], [1280, `/agents/${id(16)}`], [360, `/agents/${id(16)}`]])("a long command is opened before it can be allowed, %i pixels wide, on %s", async (width, path) => {
  const page = await open(path, width);
  const card = page.locator(".approval", { hasText: "Copy the files" });
  await card.getByText("Show whole request").waitFor();
  expect(await card.getByRole("button").allTextContents()).toEqual(["Show whole request"]);
  await card.getByText("Show whole request").click();
  await card.getByText("Allow once").waitFor();
  const request = await card.locator(".command").first().evaluate((e) => ({ cut: e.scrollHeight > e.clientHeight + 1, text: e.textContent }));
  expect(request.cut).toBe(false);
  expect(request.text).toContain("rm -rf ~/backups");
  // Each rule is on a line of its own.
  const tops = await card.locator(".rules li").evaluateAll((all) => all.map((e) => e.getBoundingClientRect().top));
  expect(new Set(tops).size).toBe(2);
  await page.close();
});

test("an unread plan has no button to approve it", async () => {
  for (const path of ["/approvals", `/agents/${id(14)}`]) {
    const page = await open(path, 360);
    const card = page.locator(".approval", { hasText: plan });
    await card.getByText("Show whole plan").waitFor();
    expect(await card.getByRole("button").allTextContents()).not.toContain("Approve plan");
    await card.getByText("Show whole plan").click();
    await card.getByText("Approve plan").waitFor();
    await page.close();
  }
});
