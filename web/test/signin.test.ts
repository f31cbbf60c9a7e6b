import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openBrowser, patience, says } from "./browser";
import { Server } from "./server";

let server: Server;
let browser: Browser;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), openBrowser()]);
});
afterAll(async () => {
  await browser.close();
  await server.close();
});

async function newContext(): Promise<BrowserContext> {
  const context = await browser.newContext();
  context.setDefaultTimeout(patience);
  return context;
}

/** Gives a page an authenticator that confirms every request. */
async function withDevice(context: BrowserContext, page: Page): Promise<void> {
  const cdp = await context.newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
}

const account = (page: Page) => page.getByRole("heading", { name: "Your account" });
const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });

async function signOut(page: Page): Promise<void> {
  await button(page, "Sign out").click();
  await page.getByRole("heading", { name: "Sign in to Aloft" }).waitFor();
}

// From the link of the first start to a password and a passkey, and then a
// sign-in with each.
test("somebody signs in, whichever way", async () => {
  const context = await newContext();
  const page = await context.newPage();
  const wrong: string[] = [];
  page.on("pageerror", (e) => wrong.push(e.message));
  await withDevice(context, page);

  await page.goto(server.link);
  await account(page).waitFor();
  expect(page.url()).toBe(`${server.url}/account`); // the address no longer contains the link
  expect(await page.evaluate("document.cookie + JSON.stringify({...localStorage, ...sessionStorage})")).not.toContain("aloft_");
  await page.getByLabel("E-mail address").fill("ada@example.com");
  await says(page.getByText("Saved"), () => button(page, "Save").click());
  await page.getByLabel("New password").fill("a horse, a battery");
  await says(page.getByText("Password set"), () => button(page, "Set password").click());
  await button(page, "Add a passkey").click();
  await page.getByText("Passkey 1").waitFor();

  await signOut(page);
  await button(page, "Sign in with a passkey").click();
  await account(page).waitFor();

  await signOut(page);
  await page.getByLabel("E-mail address").fill("ada@example.com");
  await page.getByLabel("Password", { exact: true }).fill("a horse, a bakery");
  await button(page, "Sign in").click();
  await page.getByText("the address or the password is wrong").waitFor();
  await page.getByLabel("Password", { exact: true }).fill("a horse, a battery");
  await button(page, "Sign in").click();
  await account(page).waitFor();
  expect(wrong).toEqual([]);

  const again = await (await newContext()).newPage();
  await again.goto(server.link);
  await again.getByText("this link has expired or was already used").waitFor();
  await again.close();
  await context.close();
});

// An owner invites a person, who gets a member's view.
test("somebody is invited", async () => {
  const page = await (await newContext()).newPage();
  await page.goto(`${server.url}/team`);
  await button(page, "Use an API key").click();
  await page.getByLabel("API key", { exact: true }).fill(server.key());
  await button(page, "Sign in").click();
  await page.getByLabel("E-mail address to invite").first().fill("grace@example.com");
  await button(page, "Invite").click();
  const link = await page.locator(".once input").inputValue();
  const guest = await (await newContext()).newPage();
  await guest.goto(link);
  await account(guest).waitFor();
  await guest.getByRole("link", { name: "Team" }).click();
  await guest.getByText("grace@example.com").waitFor();
  expect(await guest.getByRole("heading", { name: "Audit log" }).count()).toBe(0);
  expect(await button(guest, "Invite").count()).toBe(0);

  const row = page.locator("li", { hasText: "grace@example.com" }).first();
  await row.getByRole("button", { name: "Disable" }).click();
  await row.getByText("disabled").waitFor();
  await guest.reload();
  await guest.getByRole("heading", { name: "Sign in to Aloft" }).waitFor();
});
