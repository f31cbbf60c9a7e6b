import type { BrowserContext, Page } from "playwright-core";
import { says } from "./browser";
import { ask } from "./person_environments";

type Server = { url: string; key: string; repo: string };

/** A person adds an MCP server that requires a sign-in at a provider on another site. First the person denies it, then the agent asks and the person allows it, and finally the provider revokes it. */
export async function signInElsewhere(context: BrowserContext, server: Server, tickets: string, provider: string): Promise<void> {
  const page = await context.newPage();
  await page.goto(`${server.url}/settings#mcp-servers`);
  const section = page.locator("#mcp-servers");
  await section.getByLabel("Name", { exact: true }).fill("tickets");
  await section.getByLabel("URL", { exact: true }).fill(tickets);
  await section.getByRole("button", { name: "Add server" }).click();
  await section.getByRole("button", { name: "Test tickets" }).click();
  await section.getByText("the server requires a sign-in").waitFor();
  await section.getByRole("button", { name: "Sign in to tickets" }).click();
  await says(page.getByText("The provider refused the sign-in."), () => page.getByRole("button", { name: "Deny" }).click());

  const { agent } = (await ask(server, server.key, "POST", "/v1/agents", { prompt: { text: "Look up the ticket" }, repos: [{ url: server.repo }], runMode: "run-everything" })) as { agent: { id: string } };
  await page.goto(`${server.url}/agents/${agent.id}`);
  await page.getByRole("button", { name: "Sign in to tickets" }).click();
  await consent(page, agent.id);
  await page.getByRole("link", { name: "Conversation" }).click();
  await page.getByText("Ticket 7 is open.").waitFor();

  await page.goto(`${server.url}/settings#mcp-servers`);
  await section.getByRole("button", { name: "Sign out of tickets" }).waitFor();
  await section.getByRole("button", { name: "Test tickets" }).click();
  await section.getByText("Ready: 1 tool").waitFor();
  await fetch(`${provider}/forget`);
  await section.getByRole("button", { name: "Test tickets" }).click();
  await section.getByRole("button", { name: "Sign in again to tickets" }).click();
  await page.getByRole("button", { name: "Allow" }).click();
  await section.getByRole("button", { name: "Sign out of tickets" }).waitFor();
  await page.close();
}

/** Allows the sign-in, and returns to the agent's page. */
async function consent(page: Page, id: string): Promise<void> {
  const allow = page.getByRole("button", { name: "Allow" });
  await allow.waitFor();
  await Promise.all([page.waitForURL((u) => u.pathname === `/agents/${id}/machine`), allow.click()]);
}
