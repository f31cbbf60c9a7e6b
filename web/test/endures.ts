import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { openBrowser, patience } from "./browser";
import { Server } from "./server";

// These tests disturb the dashboard, against a real server with real machines,
// which test/e2e starts. The agent writes slowly, asks a question, and then
// counts in a shell until the test has written the file go.
const script = `
scripts:
  - match: Count
    turns:
      - text: "First I say what I am about to do, ${Array.from({ length: 60 }, (_, i) => `word${i}`).join(" ")}, and that was all."
        chunk: 8
        delay: 30ms
        calls: [{tool: Shell, args: {command: "echo tick 1; echo tick 2; until [ -e go ]; do sleep 0.1; done; for i in $(seq 3 40); do echo tick $i; done", timeout: 600000, description: "count the ticks"}}]
      - text: All is counted.
  - match: Ask
    turns:
      - calls: [{tool: Shell, args: {command: "echo was-allowed", description: "ask first"}}]
      - text: It was answered.
`;

const offline = (page: Page) => page.getByText("Can't reach the server").first();

async function spawn(page: Page, server: Server, prompt: string): Promise<void> {
  await page.keyboard.press("Control+e");
  await page.getByLabel("What should the agent do?").fill(prompt);
  await page.getByLabel("Repository").fill(`file://${server.repo}`);
  await page.getByLabel("Run mode").selectOption("allowlist");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("heading", { name: prompt }).waitFor();
}

test("a reload, a second window, and the death of the server", { timeout: 600_000 }, async () => {
  const [server, browser] = await Promise.all([Server.start(script), openBrowser()]);
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    context.setDefaultTimeout(patience);
    await context.grantPermissions(["notifications"], { origin: server.url });
    const page = await context.newPage();
    const wrong: string[] = [];
    page.on("pageerror", (e) => wrong.push(e.message));
    await page.goto(server.link);
    await page.getByRole("heading", { name: "Your account" }).waitFor();

    await spawn(page, server, "Count to forty");
    await page.getByText("word3").waitFor();
    await page.reload(); // in the middle of the stream
    await page.getByText(/word0 .*word59, and that was all/).waitFor();
    expect(await page.getByText("First I say what I am about to do").count()).toBe(1);

    // A phone shows the question in the list, opens it, and answers it. The first window shows
    // that it is answered.
    const phone = await context.newPage();
    phone.on("pageerror", (e) => wrong.push(e.message));
    await phone.setViewportSize({ width: 360, height: 740 });
    await phone.goto(`${server.url}/agents`);
    const row = phone.locator(".agent-row", { hasText: "Count to forty" });
    const review = row.getByRole("link", { name: "Review request" }); // the row has no room for the whole command
    await review.waitFor();
    await page.getByRole("button", { name: "Allow once" }).waitFor();
    expect(await phone.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    expect(await row.getByRole("button", { name: "Allow once" }).count()).toBe(0);
    await review.click();
    await phone.getByRole("button", { name: "Allow once" }).click();
    await page.getByRole("button", { name: "Allow once" }).waitFor({ state: "detached" });
    await phone.goto(`${server.url}/agents`);
    await page.getByText(/tick 2\b/).first().waitFor();

    // The server dies while the shell counts. No output may be lost or shown twice.
    await page.getByLabel("Follow-up").fill("and now back");
    await server.kill();
    await offline(page).waitFor();
    await offline(phone).waitFor();
    await server.up();
    await offline(page).waitFor({ state: "detached" });
    const id = /bc-[0-9a-f-]+/.exec(page.url())?.[0] ?? "";
    await expect.poll(() => server.write(id, "go"), { timeout: patience }).toBe(200);
    await page.getByText("All is counted.").waitFor();
    expect(await page.getByText("All is counted.").count()).toBe(1);
    expect(await page.getByText("First I say what I am about to do").count()).toBe(1);
    await page.getByRole("button", { name: /Shell/ }).click();
    await page.getByText(/tick 40/).first().waitFor();
    await page.reload();
    await page.getByText("All is counted.").waitFor();
    expect(await page.getByLabel("Follow-up").inputValue()).toBe("and now back");
    await offline(phone).waitFor({ state: "detached" });
    await row.getByText("Finished").waitFor();

    // The last used repository, which arrives while a person types in the field, must not change
    // what they type.
    let answer = () => {};
    const asked = new Promise<void>((go) => (answer = go));
    await page.route("**/v1/repositories", async (route) => (await asked, route.continue()));
    await page.keyboard.press("Control+e");
    const field = page.getByLabel("Repository");
    await field.focus();
    await Promise.all([page.waitForResponse("**/v1/repositories"), answer()]);
    await page.locator("#spawn-repos option").first().waitFor({ state: "attached" });
    expect(await field.inputValue()).toBe("");
    await page.getByLabel("What should the agent do?").focus();
    await expect.poll(() => field.inputValue(), { timeout: patience }).toBe(`file://${server.repo}`);
    await page.unroute("**/v1/repositories");
    await page.keyboard.press("Escape");

    // A notification is shown in a window without focus, and its button answers.
    await phone.addInitScript("document.hasFocus = () => false");
    const looked = [/\/v1\/approvals/, /\/v1\/agents\?/].map((what) => phone.waitForResponse(what)); // there is no notification for requests that already wait
    await phone.goto(`${server.url}/settings`);
    await Promise.all(looked);
    const worker = context.waitForEvent("serviceworker");
    await phone.getByLabel("Notify me when an agent needs me").check();
    await spawn(page, server, "Ask me first");
    const notifications = await worker;
    await expect.poll(() => notifications.evaluate("registration.getNotifications().then((all) => all.map((n) => n.title))"), { timeout: patience }).toEqual(["Ask me first asks to use Shell"]);
    await notifications.evaluate(`registration.getNotifications().then(([notification]) => dispatchEvent(new NotificationEvent("notificationclick", { notification, action: "allow_once" })))`);
    await page.getByText("It was answered.").waitFor();
    expect(wrong).toEqual([]);
  } catch (e) {
    const shots = join(import.meta.dirname, "../node_modules/.shots");
    mkdirSync(shots, { recursive: true });
    for (const [i, page] of browser.contexts().flatMap((c) => c.pages()).entries()) await page.screenshot({ path: join(shots, `endures-${i}.png`) });
    throw e;
  } finally {
    await browser.close();
    await server.close();
  }
});
