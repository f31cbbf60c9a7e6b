import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openBrowser, patience, serveDemo } from "./browser";

// What an agent writes is untrusted. Here it tries to run a script, to make the
// browser contact another host, to look like the dashboard, and to overload it.
let browser: Browser;
let demo: { url: string; close: () => Promise<void> };
beforeAll(async () => {
  [browser, demo] = await Promise.all([openBrowser(), serveDemo()]);
});
afterAll(async () => {
  await browser?.close();
  await demo?.close();
});

const id = (n: number) => `bc-00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;
const most = { nodes: 20_000, characters: 1_500_000 }; // limits for a page that a browser lays out at once
const scroll = ".conversation > .scroll";
const frames = 12; // maximum number of frames between a key and its character

type Report = { ran: string[]; asked: string[]; said: string[] };

async function open(path: string): Promise<{ page: Page; report: Report }> {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage();
  const report: Report = { ran: [], asked: [], said: [] };
  page.setDefaultTimeout(patience);
  page.on("dialog", (d) => (report.ran.push(d.message()), void d.dismiss()));
  page.on("popup", (p) => report.ran.push(`popup ${p.url()}`));
  page.on("pageerror", (e) => report.said.push(e.message));
  page.on("console", (m) => m.type() === "error" && report.said.push(m.text()));
  page.on("request", (r) => !r.url().startsWith(demo.url) && !/^(data|blob):/.test(r.url()) && report.asked.push(r.url()));
  await page.goto(demo.url + path);
  await page.locator("h1").first().waitFor();
  return { page, report };
}

/** Types into the follow-up field, and counts the frames until each character appears. */
async function frameCount(page: Page): Promise<number> {
  await page.getByLabel("Follow-up").focus();
  await page.evaluate(`(() => {
    const box = document.getElementById("follow-up");
    window.worst = 0;
    let at = 0, seen = "";
    const tick = () => {
      at++;
      if (box.value !== seen) { seen = box.value; window.worst = Math.max(window.worst, at - window.pressed); }
      requestAnimationFrame(tick);
    };
    box.addEventListener("keydown", () => (window.pressed = at), true);
    requestAnimationFrame(tick);
  })()`);
  await page.keyboard.type("still here");
  await page.waitForFunction("document.getElementById('follow-up').value === 'still here' && window.worst > 0");
  return page.evaluate<number>("window.worst");
}

const size = (page: Page) => page.evaluate<{ nodes: number; characters: number }>("({ nodes: document.querySelectorAll('*').length, characters: document.body.textContent.length })");

/** The texts in which a character that reverses the text direction could deceive a reader. */
const turningIn = (page: Page, where: string) => page.evaluate<string[]>(`[...document.querySelectorAll("${where}")].map((e) => e.textContent).filter((t) => /[\\u202A-\\u202E\\u2066-\\u2069]/.test(t)).map((t) => t.slice(0, 200))`);

/** Expands everything that is visible, and waits until it is drawn. */
async function unfold(page: Page): Promise<void> {
  await page.evaluate(`new Promise((drawn) => {
    document.querySelectorAll(".entry button[aria-expanded='false']").forEach((b) => b.click());
    requestAnimationFrame(() => requestAnimationFrame(drawn));
  })`);
}

test("nothing that an agent says runs, asks another host, or leaves its place", async () => {
  const { page, report } = await open(`/agents/${id(9)}`);
  await page.getByText("deep").first().waitFor();
  await unfold(page);
  const foreign = await page.evaluate<string[]>(`[...document.querySelectorAll(".conversation :is(script, style, iframe, object, embed, link, form:not(.questions), base, meta), .conversation svg:not(.icon), .conversation img, .conversation [onerror], .conversation [onload], .conversation [style*=url]")].map((e) => e.outerHTML.slice(0, 80))`);
  expect(foreign).toEqual([]);
  // The page's own links, at the numbers of turns, stay on the page.
  expect(await page.evaluate<string[]>("[...document.querySelectorAll('.turn-line > a')].map((a) => a.getAttribute('href')).filter((to) => to.replace(/#turn-[0-9]+$/, '') !== location.pathname)")).toEqual([]);
  const links = await page.evaluate<string[]>("[...document.querySelectorAll('.conversation a:not(.turn-line > a)')].map((a) => a.href + ' ' + a.rel + ' ' + a.target)");
  expect(links).toEqual(["https://example.com/ noreferrer noopener nofollow _blank"]);
  await page.getByText("The agent asks").first().waitFor();
  expect(await turningIn(page, ".call-head, .call pre, .acts, .asked, .todos, .approval pre, .approval button, .approval legend")).toEqual([]);
  const is = await size(page);
  expect(is.nodes).toBeLessThan(most.nodes);
  expect(is.characters).toBeLessThan(most.characters);
  expect(await page.title()).toMatch(/Aloft$/);
  expect(await page.getByRole("navigation", { name: "Aloft" }).or(page.locator("nav").first()).isVisible()).toBe(true);
  expect(report).toEqual({ ran: [], asked: [], said: [] });
});

test("ten million characters in a line, and a hundred thousand lines, leave the page answering", async () => {
  const { page, report } = await open(`/agents/${id(12)}`);
  await page.locator(scroll).waitFor();
  await page.getByText("Finished").first().waitFor();
  for (let i = 0; i < 4; i++) {
    await unfold(page);
    const is = await size(page);
    expect(is.nodes).toBeLessThan(most.nodes);
    expect(is.characters).toBeLessThan(most.characters);
    await page.evaluate(`document.querySelector("${scroll}").scrollTop -= 800`);
  }
  expect(await frameCount(page)).toBeLessThanOrEqual(frames);
  // A character that reverses the direction of text is visible where it could deceive.
  expect(await turningIn(page, ".call, .file")).toEqual([]);
  await page.getByRole("link", { name: "Changes", exact: true }).click();
  await page.getByRole("button", { name: "By turn" }).click();
  await page.getByRole("heading", { name: "Turn 1" }).waitFor();
  expect((await size(page)).characters).toBeLessThan(most.characters);
  expect(report).toEqual({ ran: [], asked: [], said: [] });
});

test("what a forge says of a pull request leads nowhere but to the web", async () => {
  const { page, report } = await open(`/agents/${id(9)}/changes`);
  await page.locator(".pull summary").first().click();
  await page.locator(".pull .check-name").first().waitFor();
  const links = await page.evaluate<string[]>("[...document.querySelectorAll('.pull a')].map((a) => a.getAttribute('href') ?? '')");
  expect(links.filter((l) => l !== "" && !/^(https?:\/\/|\/)/.test(l))).toEqual([]);
  expect(await turningIn(page, ".pull")).toEqual([]);
  await page.locator(".pull-name a").first().click();
  expect(await page.locator(".pull :is(img, script, svg:not(.icon))").count()).toBe(0);
  expect(report).toEqual({ ran: [], asked: [], said: [] });
});
