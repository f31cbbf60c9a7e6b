import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hostileNames } from "../src/demo/names";
import { byPath } from "../src/changes/parse";
import { shownName } from "../src/parts/clip";
import { openBrowser, patience, serveDemo } from "./browser";

// File names, commands and code must be shown in the order of their characters,
// whatever surrounds them. The test checks the order in Chromium's layout.
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
  const page = await (await browser.newContext({ viewport: { width, height: 900 } })).newPage();
  page.setDefaultTimeout(patience);
  await page.goto(demo.url + path);
  await page.locator("h1").first().waitFor();
  return page;
}

/** The characters of each element from left to right, line by line, with runs of right-to-left letters turned back. */
const seen = (page: Page, where: string) =>
  page.evaluate<string[]>(`[...document.querySelectorAll(${JSON.stringify(where)})].map((element) => {
    const rtl = /[\\u0590-\\u06FF]/;
    const out = [];
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      for (let i = 0; i < node.data.length; i++) {
        const range = document.createRange();
        range.setStart(node, i);
        range.setEnd(node, i + 1);
        const box = range.getClientRects()[0];
        if (box) out.push({ c: node.data[i], top: Math.round(box.top / 8), left: box.left });
      }
    }
    out.sort((a, b) => a.top - b.top || a.left - b.left);
    return out.map((o) => o.c).join("").replace(/[\\u0590-\\u06FF]+/g, (run) => [...run].reverse().join(""));
  })`);

test("file names read as they are, hostile ones too", async () => {
  const page = await open(`/agents/${id(9)}/changes`);
  await page.locator(".file-list .path").first().waitFor();
  const names = hostileNames.map((path) => ({ path })).sort(byPath).map(({ path }) => shownName(path));
  expect(names).toContain("src/⟨U+202E⟩gpj.exe");
  const long = names.findIndex((n) => n.startsWith("services/checkout/")); // this name is truncated
  const rest = <T>(all: T[]) => all.filter((_, i) => i !== long);
  expect(rest(await seen(page, ".file > header .path"))).toEqual(rest(names));
  const listed = await seen(page, ".file-list .path-name");
  expect(listed).toEqual(names.map((n) => n.split("/").at(-1)));
  // The folder is truncated, and the name is complete and inside the list.
  const cut = await page.evaluate<{ folder: boolean; name: boolean }[]>(`[...document.querySelectorAll(".file-list .path")].map((p) => {
    const over = (e) => e !== null && e.scrollWidth > e.clientWidth + 1;
    return { folder: over(p.querySelector(".path-folder")), name: over(p.querySelector(".path-name")) };
  })`);
  expect(rest(cut).slice(0, 4)).toEqual(Array(4).fill({ folder: false, name: false }));
  expect(cut[long]?.folder).toBe(true);
  await page.close();
});

test("the lines of a diff read as they are", async () => {
  const page = await open(`/agents/${id(9)}/changes`);
  await page.locator(".file[id$='.ts'] .hljs-string").first().waitFor();
  const [first, second] = await seen(page, ".file[id^='file-src'][id$='.ts'] .diff-line code");
  expect(first).toBe("if (user.isAdmin) { // ⟨U+202E⟩ } ⟨U+2066⟩if (true)");
  expect(second).toBe('const שם = "ערך";');
  await page.close();
});

test.each([1280, 360])("words in another direction turn no code around, %i pixels wide", async (width) => {
  const page = await open(`/agents/${id(8)}`, width);
  await page.locator(".call-head").first().waitFor();
  await page.locator(".call-head", { hasText: "Shell" }).click();
  await page.locator(".call .command").first().waitFor();
  expect(await seen(page, ".markdown p > code")).toEqual(["npm test -- --run"]);
  expect((await seen(page, ".markdown pre code"))[0]?.replace(/\s+/g, " ")).toBe("git push --force origin main && rm -rf build/");
  expect((await seen(page, ".call .command"))[0]?.replace(/\s+/g, " ")).toBe("echo شكرا && npm test -- --run # نعم");
  const line = (await seen(page, ".said .words"))[0] ?? "";
  expect(line).toContain("make test && make lint");
  // Each paragraph, table and list has its own direction.
  const directions = await page.evaluate<string[]>(`[...document.querySelectorAll(".markdown > *")].map((e) => e.matches("p") ? getComputedStyle(e).direction : "")`);
  expect(directions.filter(Boolean).slice(0, 2)).toEqual(["rtl", "ltr"]);
  await page.close();
});
