import { readFileSync } from "node:fs";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { corner, openBrowser, patience, serveDemo } from "./browser";

let browser: Browser;
let demo: Awaited<ReturnType<typeof serveDemo>>;
beforeAll(async () => {
  [browser, demo] = await Promise.all([openBrowser(), serveDemo()]);
});
afterAll(async () => {
  await browser?.close();
  await demo?.close();
});

const said: string[] = [];

const theirs = (page: Page) => expect.poll(() => page.getByLabel("Copied in the machine").inputValue(), { timeout: patience });

/** Opens a view of an agent. */
async function open(agent: number, view: string, options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(patience);
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: demo.url });
  const page = await context.newPage();
  said.length = 0;
  page.on("pageerror", (e) => said.push(e.message));
  page.on("console", (m) => m.type() === "error" && said.push(m.text()));
  await page.goto(`${demo.url}/agents/bc-00000000-0000-4000-8000-${agent.toString(16).padStart(12, "0")}${view}`);
  return page;
}

/** Opens the desktop of an agent, and waits for its picture. */
async function desktop(agent: number, options?: BrowserContextOptions): Promise<Page> {
  const page = await open(agent, "/machine?desktop", options);
  await expect.poll(() => page.evaluate(corner), { timeout: patience }).toEqual([0x10, 0x20, 0x30]);
  return page;
}

const clipboard = (page: Page) => page.evaluate<string>("navigator.clipboard.readText()");
const focused = (page: Page) => page.evaluate<string>("document.activeElement?.tagName");

test("a desktop is used, and left by keyboard", async () => {
  const page = await desktop(1);
  await page.getByRole("button", { name: "Take over" }).click();
  expect(await focused(page)).toBe("CANVAS");
  await page.keyboard.press("Tab"); // the machine gets the key
  expect(await focused(page)).toBe("CANVAS");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Tab");
  expect(await focused(page)).not.toBe("CANVAS");

  // The demo echoes the text that it gets. A click copies the echo.
  await page.getByRole("button", { name: "Clipboard" }).click();
  await page.getByLabel("Send to the machine").fill("to and fro");
  await page.getByRole("button", { name: "Send" }).click();
  await theirs(page).toBe("to and fro");
  await page.evaluate("navigator.clipboard.writeText('mine')");
  expect(await clipboard(page)).toBe("mine");
  await page.getByRole("button", { name: "Copy to this computer" }).click();
  await page.getByRole("button", { name: "Copied", exact: true }).waitFor();
  expect(await clipboard(page)).toBe("to and fro");

  await page.getByRole("button", { name: "Watch" }).click();
  expect(await page.getByRole("button", { name: "Ctrl-Alt-Del" }).isDisabled()).toBe(true);
  expect(said).toEqual([]);
  await page.context().close();
});

// The machine can draw only inside its box.
test("a hostile desktop", async () => {
  const page = await desktop(9, { hasTouch: true }); // on touch screens the page draws the pointer
  await page.evaluate("navigator.clipboard.writeText('mine')");
  await page.getByRole("button", { name: "Take over" }).click();
  await page.keyboard.press("c");
  await page.getByRole("button", { name: "Clipboard" }).click();
  await theirs(page).toBe("taken from you");
  expect(await clipboard(page)).toBe("mine");
  expect(await page.evaluate("[...document.querySelectorAll('canvas')].filter((c) => !c.closest('.desktop-screen') && c.width > 128).length")).toBe(0);
  expect(await page.evaluate("document.querySelector('.desktop canvas').style.cursor.length")).toBeLessThan(1000);
  await page.locator(".desktop canvas").focus();
  await page.keyboard.press("x");
  await page.getByRole("heading", { name: "Can't show this desktop" }).waitFor(); // the server claims a huge screen
  expect(said).toEqual([]);
  await page.context().close();
});

test("a recording is played where it was made", async () => {
  const page = await open(5, "");
  await page.getByLabel("Video welcome.mp4").waitFor();
  const video = "document.querySelector('.video video')";
  await expect.poll(() => page.evaluate(`${video}.videoWidth`), { timeout: patience }).toBe(480);
  await page.evaluate(`${video}.muted = true, ${video}.play()`);
  await expect.poll(() => page.evaluate(`${video}.currentTime`), { timeout: patience }).toBeGreaterThan(0);
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download welcome.mp4" }).click()]);
  expect(readFileSync(await file.path()).subarray(0, 4)).toEqual(Buffer.from([0x1a, 0x45, 0xdf, 0xa3])); // WebM
  expect(said).toEqual([]);
  await page.context().close();
});
