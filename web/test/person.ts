import { expect, test } from "vitest";
import { openBrowser, patience } from "./browser";
import { settle, tendEnvironments } from "./person_environments";
import { takeOver } from "./takeover";
import { commentAndResend } from "./turns";

// What a person does, against a real server: test/e2e starts it, with a model
// that plays a script, and says where it is.
const url = process.env["ALOFT_URL"] ?? "";
const key = process.env["ALOFT_API_KEY"] ?? "";
const repo = process.env["ALOFT_TEST_REPO"] ?? "";

test("from the key to the diff", { timeout: 600_000 }, async () => {
  const browser = await openBrowser();
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    context.setDefaultTimeout(patience); // of what it opens, too
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

    // By keyboard alone, until the agent is there.
    await page.keyboard.press("Control+e");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.type("Greet the world");
    await page.keyboard.press("Tab");
    await page.keyboard.type(repo);
    await page.keyboard.press("Control+Enter");
    await page.getByText("The greeting is there.").waitFor();
    await page.getByText("Finished", { exact: true }).first().waitFor();
    await page.getByRole("button", { name: /Write/ }).waitFor();

    // A reload in the middle loses nothing.
    await page.reload();
    await page.getByText("The greeting is there.").waitFor();

    await page.getByLabel("Follow-up").fill("Say it louder");
    await page.keyboard.press("Control+Enter");
    await page.getByText("It is louder.").waitFor();

    await page.getByRole("link", { name: "Changes" }).click();
    await page.getByRole("heading", { name: "greeting.txt" }).waitFor();
    await page.locator("[data-kind='+'] code", { hasText: "HELLO" }).first().waitFor();

    await commentAndResend(page);

    await takeOver(page);

    await tendEnvironments(page, { url, key, repo });
    await settle(browser, page, { url, key, repo });

    expect(foreign).toEqual([]);
    expect(said.filter((s) => !/ (401|409) /.test(s))).toEqual([]); // that nobody is signed in yet is said by a 401, a file that was changed by a 409
  } finally {
    await browser.close();
  }
});
