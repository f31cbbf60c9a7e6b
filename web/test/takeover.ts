import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { corner, patience } from "./browser";

/**
 * A person takes over: changes a file that the agent has made, uploads and
 * downloads files, types in a terminal, opens a program on a port, uses a desktop,
 * watches the agent's recording of it, and has a subagent use it.
 * The page shows the agent, which has written greeting.txt.
 */
export async function takeOver(page: Page): Promise<void> {
  await changeFiles(page);
  await useMachine(page);
  await useDesktop(page);
  await watchRecording(page);
  await haveItUsed(page);
}

const row = (page: Page, name: string) => page.getByRole("treeitem").filter({ has: page.getByText(name, { exact: true }) });

async function changeFiles(page: Page): Promise<void> {
  await page.getByRole("link", { name: "Files" }).click();
  await enter(page, page.getByRole("tree"));
  await row(page, "greeting.txt").click();
  const editor = page.getByRole("textbox", { name: "Contents of greeting.txt" });
  await editor.getByText("HELLO").waitFor();
  const write = async (line: string) => {
    await editor.click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type(line);
    await page.getByText("Not saved", { exact: true }).waitFor();
  };
  await write("by hand\n");
  await page.reload(); // a reload loses nothing
  await editor.getByText("by hand").waitFor();
  await page.getByText("Restored from before").waitFor();
  await editor.click();
  await page.keyboard.press("Control+s");
  await page.getByText("Saved", { exact: true }).waitFor();

  // Another person saves the file in the meantime, and neither text is lost.
  const contents = `/v1/agents/${/bc-[0-9a-f-]+/.exec(page.url())?.[0]}/files/contents?path=greeting.txt`;
  await write("twice\n");
  expect(await page.evaluate(`fetch("${contents}", { method: "PUT", body: "theirs\\n" }).then((r) => r.status)`)).toBe(200);
  await page.keyboard.press("Control+s"); // unless the page has already noticed the change
  await page.getByText("This file changed in the machine").waitFor();
  expect(await page.evaluate(`fetch("${contents}").then((r) => r.text())`)).toBe("theirs\n");
  await page.getByRole("button", { name: "Overwrite" }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  expect(await page.evaluate(`fetch("${contents}").then((r) => r.text())`)).toBe("HELLO\nby hand\ntwice\n");

  const bytes = Buffer.from(Uint8Array.from({ length: 3_000_000 }, (_, i) => i % 251));
  const upload = (buffer: Buffer) => page.locator("input[type=file]").setInputFiles({ name: "<b>up & down.bin", mimeType: "application/octet-stream", buffer });
  await upload(bytes.subarray(1));
  await row(page, "<b>up & down.bin").waitFor();
  await upload(bytes); // replaces the existing file after a confirmation
  await page.getByRole("dialog").getByRole("button", { name: "Replace", exact: true }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.locator(".file-sending").waitFor({ state: "detached" });
  await row(page, "<b>up & down.bin").click();
  await page.getByText("Binary file").waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator(".file-view .empty a").click()]);
  expect(readFileSync(await download.path()).equals(bytes)).toBe(true);
  await page.getByRole("tree").focus();
  await page.keyboard.press("F2");
  await page.getByLabel("Path in the workspace").fill("sub/renamed.bin");
  await page.keyboard.press("Enter");
  await row(page, "renamed.bin").waitFor();
  await row(page, "sub").click();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await row(page, "sub").waitFor({ state: "detached" });
}

async function useMachine(page: Page): Promise<void> {
  await page.getByRole("link", { name: "Machine" }).click();
  const terminal = page.locator(".xterm-rows");
  await enter(page, terminal);
  await page.locator(".xterm-helper-textarea").focus();
  await terminal.getByText("$").first().waitFor();
  await page.keyboard.type("tr a-z A-Z < greeting.txt\n");
  await terminal.getByText("BY HAND").first().waitFor();

  await page.keyboard.type(`node -e 'require("http").createServer((q, s) => s.end("hello from inside")).listen(3000, "127.0.0.1", () => console.log("LISTENS" + 1))'\n`);
  await terminal.getByText("LISTENS1").first().waitFor();
  await page.getByLabel("Port", { exact: true }).fill("3000");
  const [preview] = await Promise.all([page.context().waitForEvent("page"), page.getByRole("button", { name: "Open", exact: true }).click()]);
  await preview.getByText("hello from inside").waitFor();
  await preview.close();

  // The agent sees what was typed.
  await page.getByRole("link", { name: "Conversation" }).click();
  await page.getByLabel("Follow-up").fill("Look at the terminal");
  await page.keyboard.press("Control+Enter");
  await page.getByText("I see it.").waitFor();
  await page.getByRole("button", { name: /look at the terminals/ }).click();
  await page.locator(".call", { hasText: "look at the terminals" }).getByText("LISTENS1").first().waitFor();
}

/** Returns the keys that the window on the desktop has received. */
async function pressed(page: Page): Promise<string> {
  const { origin, pathname } = new URL(page.url());
  return (await page.request.get(`${origin}/v1/agents/${/bc-[0-9a-f-]+/.exec(pathname)?.[0]}/files/contents?path=pressed`)).text();
}

/** Opens the desktop, which starts it, sees the painted color, and types into a window that receives the keys. */
async function useDesktop(page: Page): Promise<void> {
  const terminal = page.locator(".xterm-rows");
  await page.getByRole("link", { name: "Machine" }).click();
  await enter(page, terminal);
  await page.getByRole("button", { name: "Desktop" }).click();
  await page.locator(".desktop canvas").waitFor();
  await page.getByRole("button", { name: "Terminals" }).click();
  await page.locator(".xterm-helper-textarea").focus();
  await terminal.getByText("LISTENS1").first().waitFor();
  await page.keyboard.press("Control+c");
  // A window that prints which key presses it receives.
  await page.keyboard.type(`xsetroot -solid "#2060a0"; stdbuf -oL xev -geometry 1000x800+400+150 -event focus -event keyboard | sed -un 's/^FocusI\\(n\\).*/HEARS\\1/p; s/.*keysym 0x7[1a], \\(.\\)).*/PRESSED\\1/p' | tee pressed\n`);
  await terminal.getByText("HEARSn").first().waitFor();
  await page.getByRole("button", { name: "Desktop" }).click();
  await expect.poll(() => page.evaluate(corner), { timeout: patience }).toEqual([0x20, 0x60, 0xa0]);
  await page.getByRole("button", { name: "Take over" }).click();
  await page.locator(".desktop canvas").click(); // in the middle, on the window that must get the keys
  await expect.poll(async () => {
    await page.keyboard.press("z");
    return pressed(page);
  }, { timeout: patience, interval: 500 }).toContain("PRESSEDz");
  await page.getByRole("button", { name: "Terminals" }).click();
  await terminal.getByText("PRESSEDz").first().waitFor();
}

/** Has the agent record the painted desktop and view the recording. The page must show both. */
async function watchRecording(page: Page): Promise<void> {
  await page.getByRole("link", { name: "Conversation" }).click();
  await page.getByLabel("Follow-up").fill("Record the desktop");
  await page.keyboard.press("Control+Enter");
  await page.getByText("It is recorded.").waitFor();
  await page.getByLabel("Video painted.mp4").waitFor();
  const video = "document.querySelector('.video video')";
  await expect.poll(() => page.evaluate(`[${video}.videoWidth > 0, Number.isFinite(${video}.duration) && ${video}.duration > 0]`), { timeout: patience }).toEqual([true, true]);
  await page.evaluate(`${video}.muted = true, ${video}.play()`);
  await expect.poll(() => page.evaluate(middle(video)), { timeout: patience }).toBe(true);
  await expect.poll(() => page.evaluate(middle("document.querySelector('.call img')")), { timeout: patience }).toBe(true);
}

/** Has a subagent press a key in the window. The window must receive the key, and the page must show the actions beside the screenshots. */
async function haveItUsed(page: Page): Promise<void> {
  await page.getByLabel("Follow-up").fill("Try the window");
  await page.keyboard.press("Control+Enter");
  await page.getByText("The window has heard it.").waitFor();
  await expect.poll(() => pressed(page), { timeout: patience }).toContain("PRESSEDq");
  await page.getByRole("button", { name: /computerUse: Press q/ }).click();
  await page.getByText("click left at 640, 400 · type “q”").first().waitFor();
  const seen = page.locator(".acts ~ .shots img");
  await seen.scrollIntoViewIfNeeded();
  const img = "document.querySelector('.acts ~ .shots img')";
  await expect.poll(() => page.evaluate(`[${img}?.naturalWidth, ${img}?.naturalHeight]`), { timeout: patience }).toEqual([1280, 800]);
  expect(await page.evaluate(middle(img))).toBe(true);
}

/** A script that reports whether the middle of a video or picture is about as blue as the painted desktop. */
const middle = (what: string) => `((shown) => {
  if (!shown) return false;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [64, 40];
  const c = canvas.getContext("2d");
  c.drawImage(shown, 0, 0, 64, 40);
  const [r, g, b] = c.getImageData(48, 30, 1, 1).data;
  return Math.abs(r - 0x20) < 24 && Math.abs(g - 0x60) < 24 && Math.abs(b - 0xa0) < 24;
})(${what})`;

/** Connects to the machine, which may be asleep. */
async function enter(page: Page, inside: ReturnType<Page["locator"]>): Promise<void> {
  const wake = page.getByRole("button", { name: "Wake and connect" });
  await inside.or(wake).first().waitFor();
  if (await wake.isVisible()) await wake.click();
}
