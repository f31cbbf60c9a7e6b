import { expect, test } from "vitest";
import { openBrowser, patience, says } from "./browser";
import { Gitea } from "./gitea";
import { Server } from "./server";

// A new user goes from the one-time link to a merged branch at a real
// code host, which `make forges` starts. Each step follows from the previous
// page.
test("from the link of the first start to a merged branch", { timeout: 600_000 }, async () => {
  const gitea = await Gitea.start();
  const server = await Server.start("", `  credentials: [{url: "${gitea.url}", username: bot, token: ${gitea.bot}, forge: gitea, reviewers: {ada@example.com: ada}}]\n`);
  const browser = await openBrowser();
  try {
    const repo = await gitea.repository("slug", server.repo);
    expect(server.said).toContain("the only model is the scripted one");
    expect(server.said).not.toContain("No git credentials are configured");

    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    context.setDefaultTimeout(patience);
    const page = await context.newPage();
    const wrong: string[] = [];
    page.on("pageerror", (e) => wrong.push(e.message));
    const button = (name: string) => page.getByRole("button", { name, exact: true });

    await page.goto(server.link);
    await page.getByText("Set a password or add a passkey").waitFor();
    await page.getByLabel("E-mail address").fill("ada@example.com");
    await says(page.getByText("Saved"), () => button("Save").click());
    await page.getByLabel("New password").fill("a horse, a battery");
    await says(page.getByText("Password set"), () => button("Set password").click());

    await page.keyboard.press("Control+e");
    const dialog = page.getByRole("dialog");
    await dialog.getByText("An admin can connect a real one").waitFor();
    await page.getByLabel("What should the agent do?").fill("Mend the failing test");
    await page.locator("#spawn-repo").fill(repo);
    await page.keyboard.press("Control+Enter");
    await page.getByRole("link", { name: "View changes" }).click();
    await page.locator("[data-kind='+'] code", { hasText: "sed -e" }).first().waitFor();
    await page.getByText("Finished", { exact: true }).first().waitFor();

    // The form proposes the pull request's text, and a person adds to it.
    await button("Open pull request").click();
    const title = page.locator("#pull-title");
    await expect.poll(() => title.inputValue(), { timeout: patience }).toBe("Join runs of other characters into one hyphen");
    const body = page.locator("#pull-body");
    expect(await body.inputValue()).toContain(`](${server.url}/agents/`);
    await title.fill("slug: join runs of other characters");
    await button("Open").click();
    await page.getByRole("link", { name: "slug: join runs of other characters #1" }).waitFor();
    const pull = (await gitea.api(gitea.ada, "GET", "/repos/ada/slug/pulls/1")) as { title: string; body: string; head: { sha: string }; requested_reviewers: { login: string }[] };
    expect(pull).toMatchObject({ title: "slug: join runs of other characters", requested_reviewers: [{ login: "ada" }] });
    expect(pull.body).toContain("The tests pass now.");

    // CI reports a status, and a person merges on the code host.
    await gitea.api(gitea.ada, "POST", `/repos/ada/slug/statuses/${pull.head.sha}`, { context: "ci/test", state: "success", target_url: "https://ci.example.com/1", description: "9 passed" });
    const again = () => button("Refresh").click();
    await expect.poll(async () => (await again(), page.getByText("1 check passed").isVisible()), { timeout: patience, interval: 1_000 }).toBe(true);
    const [there] = await Promise.all([context.waitForEvent("page"), page.getByRole("link", { name: "slug: join runs of other characters #1" }).click()]);
    await there.waitForURL(`${gitea.url}/**`); // which wants a person of its own; its scripts are not built, so the API merges
    await gitea.api(gitea.ada, "POST", "/repos/ada/slug/pulls/1/merge", { Do: "merge" });
    await expect.poll(async () => (await again(), page.locator(".pull .badge", { hasText: "Merged" }).isVisible()), { timeout: patience, interval: 1_000 }).toBe(true);
    const slug = (await gitea.api(gitea.ada, "GET", "/repos/ada/slug/contents/slug.sh")) as { content: string };
    expect(Buffer.from(slug.content, "base64").toString()).toContain("sed -e");
    expect(wrong).toEqual([]);
  } finally {
    await browser.close();
    await server.close();
    await gitea.close();
  }
});
