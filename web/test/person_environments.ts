import { expect } from "vitest";
import type { Browser, Page } from "playwright-core";
import { patience, says } from "./browser";

type Server = { url: string; key: string; repo: string };

/** Calls the API with the key. */
export async function ask(server: Server, key: string, method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
  const reply = await fetch(server.url + path, { method, headers: { Authorization: `Bearer ${key}` }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  expect(reply.ok, `${method} ${path}: ${reply.status}`).toBe(true);
  return reply.status === 204 ? {} : ((await reply.json()) as Record<string, unknown>);
}

/** An admin creates an environment, fixes it, builds it, adds a secret and reverts a change. */
export async function tendEnvironments(page: Page, server: Server): Promise<void> {
  page.on("dialog", (d) => void d.accept());
  await page.getByRole("link", { name: "Environments", exact: true }).click();
  await page.getByRole("button", { name: "New environment" }).click();
  await page.getByLabel("Name", { exact: true }).fill("Tended");
  await page.getByLabel("Repositories, one per line").fill(server.repo);
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();

  // A mistake is shown while it is typed, and unsaved text survives a reload.
  const editor = page.locator(".cm-content");
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText('{\n  "instal": "echo built-in-a-browser"\n}\n');
  await page.getByText('write "install"').first().waitFor();
  await page.getByText("1 warning", { exact: true }).waitFor();
  await page.locator(".cm-lintRange-warning").waitFor();
  await page.reload();
  await page.getByText("Not saved. Draft kept in this tab.").waitFor();
  await editor.getByText("built-in-a-browser").waitFor();
  // The schema proposes the intended key.
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("{");
  await page.keyboard.type('\n"inst');
  await page.keyboard.press("Control+Space");
  await page.locator(".cm-tooltip-autocomplete").getByText("install", { exact: true }).waitFor();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText('{\n  "install": "echo built-in-a-browser"\n}\n');
  await page.getByText("No problems").waitFor();
  await says(page.getByText("Saved. New agents use it."), () => page.keyboard.press("Control+s"));

  await page.getByRole("link", { name: "Builds", exact: true }).click();
  await page.getByRole("button", { name: "Build now" }).click();
  await page.locator(".log").getByText("built-in-a-browser").first().waitFor();
  await page.getByText("Succeeded", { exact: true }).first().waitFor();

  await page.getByRole("link", { name: "Secrets", exact: true }).click();
  await page.getByLabel("Name", { exact: true }).fill("BROWSER_TOKEN");
  await page.getByLabel("Value", { exact: true }).fill("never-shown-again");
  await page.getByRole("button", { name: "Save secret" }).click();
  await page.getByRole("button", { name: "Delete BROWSER_TOKEN" }).waitFor();
  await page.reload();
  await page.getByRole("button", { name: "Delete BROWSER_TOKEN" }).waitFor();
  expect(await page.content()).not.toContain("never-shown-again");

  // The first version can be restored, and has its text.
  await page.getByRole("link", { name: "History", exact: true }).click();
  await page.locator("[data-kind='+'] code", { hasText: "built-in-a-browser" }).first().waitFor();
  await says(page.getByText("Restored. The replaced version"), () => page.getByRole("button", { name: "Restore" }).first().click());
  await page.getByRole("link", { name: "environment.json", exact: true }).click();
  await editor.getByText("it runs when the environment is built").waitFor();
}

/** A person sets up a machine in a terminal, saves it, and tests and commits the proposed environment. Then an agent does the same after a question, and its proposal is kept. */
export async function setUpMachines(page: Page, server: Server): Promise<void> {
  const begin = async (button: string) => {
    await page.getByRole("link", { name: "Environments", exact: true }).click();
    await page.getByRole("link", { name: "Set up", exact: true }).click();
    if (button === "Start agent") await page.getByRole("button", { name: "Let an agent do it" }).click();
    await page.getByLabel("Repository", { exact: true }).fill(server.repo);
    await page.getByRole("button", { name: button }).click();
  };
  const editor = page.locator(".cm-content");
  const idOf = () => /bc-[0-9a-f-]+/.exec(page.url())?.[0] ?? "";

  await begin("Start machine");
  const terminal = page.locator(".xterm-rows");
  await terminal.getByText("$").first().waitFor();
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.type("echo by hand | sudo tee /etc/set-up && echo SET$((1+1))\n");
  await terminal.getByText("SET2").first().waitFor();
  await page.getByRole("button", { name: "Save as snapshot" }).click();
  await editor.getByText("snapshot-").first().waitFor();
  await page.reload(); // a reload loses nothing
  await editor.getByText("snapshot-").first().waitFor();
  await editor.click();
  await page.keyboard.press("Control+a");
  const { items } = (await ask(server, server.key, "GET", "/v1/snapshots")) as { items: { id: string }[] };
  await page.keyboard.insertText(`{"snapshot": "${items[0]?.id}", "install": "cat /etc/set-up"}\n`);
  await page.getByRole("button", { name: "Test with a build" }).click();
  await page.getByText("The build succeeded.").waitFor();
  await page.getByRole("button", { name: "Commit to a branch" }).click();
  await page.getByText("Committed .aloft/environment.json").waitFor();
  expect((await ask(server, server.key, "GET", `/v1/agents/${idOf()}/environment`))["environmentJson"]).toContain("cat /etc/set-up");
  await page.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("button", { name: "Start machine" }).waitFor();

  await begin("Start agent");
  await page.getByRole("button", { name: "Run them" }).click();
  await page.getByText("I propose to install it.").waitFor();
  await page.getByRole("button", { name: "View proposal" }).click();
  await editor.getByText("by-an-agent").waitFor();
  await page.getByText("The agent proposes .aloft/environment.json").waitFor();
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText('{"install": "echo changed-by-hand"}\n');
  await page.getByRole("button", { name: "Save for me" }).click();
  await page.getByRole("link", { name: "History", exact: true }).waitFor();
  const kept = /env-[0-9a-f-]+/.exec(page.url())?.[0] ?? "";
  expect((await ask(server, server.key, "GET", `/v1/environments/${kept}`))["environmentJson"]).toContain("changed-by-hand");
  await ask(server, server.key, "DELETE", `/v1/environments/${kept}`);
}

/** An admin changes a setting, which a member may not. */
export async function settle(browser: Browser, page: Page, server: Server): Promise<void> {
  await page.getByRole("link", { name: "Settings", exact: true }).click();
  const branch = page.getByLabel("Base branch");
  await branch.fill("main");
  await says(page.getByText("Saved", { exact: true }), () => page.keyboard.press("Enter"));
  const network = page.getByLabel("Network access of machines");
  await says(page.getByText("Saved", { exact: true }), () => network.selectOption("network_settings_only"));
  await page.getByLabel("Hosts", { exact: true }).fill("*.example.com\n192.0.2.0/24");
  await page.getByLabel("Hosts", { exact: true }).blur();
  const settled = async () => (await ask(server, server.key, "GET", "/v1/settings")) as { baseBranch: string; networkAllowlist: string[] };
  await expect.poll(settled, { timeout: patience }).toMatchObject({ baseBranch: "main", networkMode: "network_settings_only", networkAllowlist: ["*.example.com", "192.0.2.0/24"] });

  const invited = await ask(server, server.key, "POST", "/v1/members", { email: "member@example.com", role: "member" });
  const context = await browser.newContext();
  try {
    const theirs = await context.newPage();
    theirs.setDefaultTimeout(patience);
    await theirs.goto((invited["link"] as { url: string }).url.replace(/^https?:\/\/[^/]+/, server.url));
    await theirs.getByRole("link", { name: "Settings", exact: true }).waitFor();
    await theirs.goto(`${server.url}/settings`);
    await theirs.getByText("Only admins can change these settings.").first().waitFor();
    for (const field of ["Base branch", "Network access of machines", "Hosts"]) expect(await theirs.getByLabel(field, { exact: true }).isDisabled()).toBe(true);
    // Hiding the page is not enough: the server must refuse the request too.
    const status = await theirs.evaluate("fetch('/v1/settings', {method: 'PATCH', headers: {'Content-Type': 'application/json'}, body: '{\"baseBranch\":\"theirs\"}'}).then((r) => r.status)");
    expect(status).toBe(403);
  } finally {
    await context.close();
  }
  expect((await settled()).baseBranch).toBe("main");
  await ask(server, server.key, "PATCH", "/v1/settings", { baseBranch: "", networkMode: "allow_all", networkAllowlist: [] });
}
