import type { Page } from "playwright-core";

/**
 * The page shows an idle agent whose changes contain the line HELLO. A comment on
 * that line reaches the agent, and the agent's prompt is edited and sent again.
 */
export async function commentAndResend(page: Page): Promise<void> {
  await page.getByRole("link", { name: "Changes", exact: true }).click();
  const line = page.locator(".diff-line, .half", { has: page.locator("code", { hasText: "HELLO" }) }).first();
  await line.getByRole("button", { name: /^Comment on line/ }).click();
  await page.getByRole("textbox", { name: "What should be different here?" }).fill("make it shorter");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("button", { name: "Send as follow-up" }).click();

  await page.getByRole("link", { name: "Conversation" }).click();
  await page.getByText("It is shorter.").waitFor();
  const said = page.locator(".said", { hasText: "make it shorter" });
  await said.hover();
  await said.getByRole("button", { name: "Edit" }).and(page.locator(":enabled")).click();
  await page.getByLabel("What should the agent do?").fill("Make it polite");
  await page.getByRole("dialog").getByRole("button", { name: "Send" }).click();
  await page.getByText("It is polite.").waitFor();
  await page.getByText("1 turn was replaced").waitFor();
  await page.getByText("It is shorter.").waitFor({ state: "detached" });
}
