import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { openBrowser, patience } from "./browser";
import { ask, settle, setUpMachines, tendEnvironments } from "./person_environments";
import { signInElsewhere } from "./sign_in_elsewhere";
import { takeOver } from "./takeover";
import { commentAndResend } from "./turns";

// These tests do what a person does, against a real server that test/e2e starts with a model
// that follows a script. The environment variables say where the server is.
const url = process.env["ALOFT_URL"] ?? "";
const key = process.env["ALOFT_API_KEY"] ?? "";
const repo = process.env["ALOFT_TEST_REPO"] ?? "";

/** Copies a picture to the clipboard. */
const copyPicture = `new Promise((done, fail) => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  canvas.getContext("2d").fillRect(0, 0, 8, 8);
  canvas.toBlob((png) => navigator.clipboard.write([new ClipboardItem({ "image/png": png })]).then(done, fail), "image/png");
})`;

/** Presses Tab until the target has the focus. */
async function into(page: Page, field: string): Promise<void> {
  for (let n = 0; n < 9 && (await page.locator(`${field}:focus`).count()) === 0; n++) await page.keyboard.press("Tab");
}

test("from the key to the diff", { timeout: 600_000 }, async () => {
  const browser = await openBrowser();
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    context.setDefaultTimeout(patience); // also applies to pages that the context opens
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: url });
    const page = await context.newPage();
    const said: string[] = [];
    page.on("console", (m) => m.type() === "error" && said.push(m.text()));
    page.on("pageerror", (e) => said.push(e.message));
    const foreign: string[] = [];
    page.on("request", (r) => !r.url().startsWith(url) && foreign.push(r.url()));

    await page.goto(url);
    await page.getByRole("button", { name: "Use an API key" }).click();
    await page.getByLabel("API key", { exact: true }).fill(key);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Agents", exact: true }).waitFor();

    // By keyboard alone, up to the agent's page. The server must have the chosen options.
    const server = { url, key, repo };
    const { id: environment } = await ask(server, key, "POST", "/v1/environments", { owner: "personal", name: "Spawned in", repos: [{ url: repo }], environmentJson: "{}" });
    await page.keyboard.press("Control+e");
    const dialog = page.getByRole("dialog");
    await dialog.locator("option", { hasText: "Spawned in" }).waitFor({ state: "attached" });
    await page.keyboard.type("Greet the world");
    await page.evaluate(copyPicture);
    await page.keyboard.press("Control+v");
    await dialog.locator(".pictures img").waitFor();
    await into(page, "#spawn-repo");
    await page.keyboard.type(repo);
    await page.keyboard.press("Tab");
    await page.keyboard.type("main");
    for (const letter of ["s", "s", "r"]) { // scripted, Spawned in, Run everything: a letter selects the option that begins with it
      await page.keyboard.press("Tab");
      await page.keyboard.press(letter);
    }
    await page.keyboard.press("Control+Enter");
    await page.getByText("The greeting is there.").waitFor();
    const id = /bc-[0-9a-f-]+/.exec(page.url())?.[0] ?? "";
    expect(await ask(server, key, "GET", `/v1/agents/${id}`)).toMatchObject({
      repos: [{ url: repo, startingRef: "main" }], model: "scripted", env: { type: "cloud", name: "Spawned in" }, runMode: "run-everything",
    });
    await expect.poll(() => page.evaluate("document.querySelector('.shots img')?.naturalWidth"), { timeout: patience }).toBe(8); // the width of the stored picture
    await page.getByText("Finished", { exact: true }).first().waitFor();
    await page.getByRole("button", { name: /Write/ }).waitFor();

    // A reload in the middle loses nothing.
    await page.reload();
    await page.getByText("The greeting is there.").waitFor();

    await page.getByLabel("Follow-up").fill("Say it louder");
    await page.keyboard.press("Control+Enter");

    // The agent asks a question. One click answers it, and the choice stays visible.
    await page.getByRole("button", { name: "In capitals" }).click();
    await page.locator(".asked dd[data-chosen]", { hasText: "In capitals" }).waitFor();
    await page.getByText("It is louder.").waitFor();

    await page.getByRole("link", { name: "Changes", exact: true }).click();
    await page.getByRole("heading", { name: "greeting.txt" }).waitFor();
    await page.locator("[data-kind='+'] code", { hasText: "HELLO" }).first().waitFor();

    await commentAndResend(page);

    await takeOver(page);

    await signInElsewhere(context, server, process.env["ALOFT_TEST_MCP"] ?? "", process.env["ALOFT_TEST_PROVIDER"] ?? "");
    await ask(server, key, "DELETE", `/v1/environments/${String(environment)}`);
    await tendEnvironments(page, server);
    await setUpMachines(page, server);
    await settle(browser, page, server);

    expect(foreign).toEqual([]);
    expect(said.filter((s) => !/ (401|409) /.test(s))).toEqual([]); // expected: 401 before the sign-in, and 409 for a file that was changed
  } finally {
    await browser.close();
  }
});
