import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Browser, type Locator, type Page } from "playwright-core";
import { build, preview } from "vite";

const root = join(import.meta.dirname, "..");

/** The content security policy that the server sends with every page. The tests apply it too. */
const policy = readFileSync(join(root, "../internal/control/dashboard/policy.txt"), "utf8").trim().split("\n").join("; ");

/** The timeout of each step, in milliseconds. Only a step that hangs reaches it. */
export const patience = 120_000;

/** Debian's Chromium, unless CHROMIUM names another browser. */
export function openBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.0.0.1"],
  });
}

/** Performs an action and waits for the short-lived message that the page shows about it. The wait begins before the action, because the message may disappear soon. */
export async function says(words: Locator, act: () => Promise<unknown>): Promise<void> {
  await Promise.all([words.first().waitFor(), act()]);
}

/** Builds the demonstration and serves it as the server would, or so that pages may be framed. Each caller gets its own build, which parallel callers do not overwrite. */
export async function serveDemo(framed = false): Promise<{ url: string; close: () => Promise<void> }> {
  process.env["NODE_ENV"] = "production"; // instead of the tests' value
  const outDir = mkdtempSync(join(tmpdir(), "aloft-demo-"));
  await build({ root, mode: "demo", logLevel: "warn", build: { outDir } });
  const server = await preview({
    root, mode: "demo", logLevel: "warn", build: { outDir },
    preview: { port: 0, host: "localhost", headers: framed ? {} : { "Content-Security-Policy": policy } },
  });
  const url = server.resolvedUrls?.local[0]?.replace(/\/$/, "");
  if (!url) throw new Error("the demonstration has no address");
  return {
    url,
    close: async () => {
      await server.close();
      rmSync(outDir, { recursive: true, force: true });
    },
  };
}

const demoId = (n: number) => `bc-00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;

/** Waits until the page stops changing, up to a timeout for pages with streamed text. */
async function settled(page: Page): Promise<void> {
  let before = "";
  for (let same = 0, looks = 0; same < 3 && looks < 30; looks++) {
    await page.waitForTimeout(100);
    const now = await page.evaluate<string>("document.body.innerHTML");
    same = now === before ? same + 1 : 0;
    before = now;
  }
}

/**
 * A script that returns how far the page's content has moved by itself, as the browser measures it (cumulative layout
 * shift). Up to 0.1 is good. A shift of half a screen is wrong even on a busy host.
 */
export const shifted = `new Promise((done) => {
  let all = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((e) => (all += e.hadRecentInput ? 0 : e.value))).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done(all), 0);
})`;

export type View = { name: string; path: string; keys?: string; click?: string | string[] };

/** A script that returns the color in the corner of the desktop that the page shows. */
export const corner = `(() => {
  const canvas = document.querySelector(".desktop canvas");
  return canvas?.width ? [...canvas.getContext("2d").getImageData(0, 0, 1, 1).data.slice(0, 3)] : [];
})()`;

/** Opens a view and waits until it stops changing. */
export async function show(page: Page, url: string, view: View): Promise<void> {
  await page.goto(url + view.path);
  await page.locator("h1").first().waitFor();
  for (const key of (view.keys ?? "").split(" ").filter(Boolean)) await page.keyboard.press(key);
  for (const what of [view.click ?? []].flat()) await page.locator(what).first().click();
  await page.evaluate("document.fonts.ready");
  await page.evaluate("Promise.all([...document.querySelectorAll('video')].map((v) => v.readyState > 1 || new Promise((done) => ['loadeddata', 'error'].forEach((e) => v.addEventListener(e, done)))))");
  await settled(page);
}

/** The demonstration's views, by name and path. */
export const views: View[] = [
  { name: "agents", path: "/agents" },
  { name: "agents-filters", path: "/agents", keys: "f" },
  { name: "agents-picked", path: "/agents", click: ".agent-row input" },
  { name: "agents-needy", path: "/agents", click: "text=Asks you" },
  { name: "keys", path: "/agents", keys: "?" },
  { name: "agents-empty", path: "/agents?demo=empty" },
  { name: "agents-loading", path: "/agents?demo=loading" },
  { name: "agents-error", path: "/agents?demo=error" },
  { name: "agents-offline", path: "/agents?demo=offline" },
  { name: "spawn", path: "/agents", keys: "Control+e" },
  { name: "spawn-more", path: "/agents", keys: "Control+e", click: "text=Advanced" },
  { name: "spawn-choices", path: "/agents", keys: "Control+e", click: ".dialog [type=checkbox]" },
  { name: "palette-none", path: "/agents", keys: "Control+k Z Z" },
  { name: "agent-working", path: `/agents/${demoId(1)}` },
  { name: "agent-checks", path: `/agents/${demoId(51)}` },
  { name: "agent-subagent", path: `/agents/${demoId(1)}`, click: "text=Find callers of deliver" },
  { name: "agent-desktop", path: `/agents/${demoId(6)}`, click: "text=Try the tax form" },
  { name: "agent-background", path: `/agents/${demoId(6)}`, click: "text=Watch the nightly build" },
  { name: "agent-asks", path: `/agents/${demoId(2)}` },
  { name: "agent-wonders", path: `/agents/${demoId(13)}` },
  { name: "agent-publishes", path: `/agents/${demoId(16)}` },
  { name: "agent-plans", path: `/agents/${demoId(14)}` },
  { name: "agent-failed", path: `/agents/${demoId(3)}` },
  { name: "agent-overloaded", path: `/agents/${demoId(17)}` },
  { name: "agent-retry-with", path: `/agents/${demoId(3)}`, click: "text=Retry with" },
  { name: "agent-limited", path: `/agents/${demoId(15)}` },
  { name: "agent-starting", path: `/agents/${demoId(4)}` },
  { name: "agent-hostile", path: `/agents/${demoId(9)}` },
  { name: "agent-arabic", path: `/agents/${demoId(8)}` },
  { name: "agent-long", path: `/agents/${demoId(10)}` },
  { name: "agent-pull", path: `/agents/${demoId(105)}` },
  { name: "agent-find", path: `/agents/${demoId(1)}`, keys: "/ d e l i v e r Enter" },
  { name: "agent-outline", path: `/agents/${demoId(1)}`, keys: "o" },
  { name: "agent-folded", path: `/agents/${demoId(1)}`, keys: "c" },
  { name: "agent-error", path: `/agents/${demoId(1)}?demo=error` },
  { name: "agent-turn-forks", path: `/agents/${demoId(5)}`, click: "text=Fork from here" },
  { name: "agent-retried", path: `/agents/${demoId(5)}`, click: "text=2 turns were replaced" },
  { name: "agent-resend", path: `/agents/${demoId(5)}`, click: ".said >> text=Edit" },
  { name: "agent-recording", path: `/agents/${demoId(5)}` },
  { name: "agent-image", path: `/agents/${demoId(5)}`, click: ".shots button" },
  { name: "changes-turns", path: `/agents/${demoId(1)}/changes`, click: "text=By turn" },
  { name: "changes", path: `/agents/${demoId(1)}/changes` },
  { name: "changes-split", path: `/agents/${demoId(1)}/changes`, click: "text=Side by side" },
  { name: "changes-comment", path: `/agents/${demoId(1)}/changes`, click: "[data-kind='+'] button.number" },
  { name: "changes-empty", path: `/agents/${demoId(1)}/changes?demo=empty` },
  { name: "changes-pull", path: `/agents/${demoId(105)}/changes`, click: ".pull summary" },
  { name: "changes-pulls", path: `/agents/${demoId(106)}/changes` },
  { name: "changes-pull-form", path: `/agents/${demoId(103)}/changes`, click: ["text=Open pull request", ".dialog [type=checkbox]"] },
  { name: "changes-pull-hostile", path: `/agents/${demoId(9)}/changes`, click: ".pull summary" },
  { name: "changes-names", path: `/agents/${demoId(9)}/changes` },
  { name: "changes-pull-merged", path: `/agents/${demoId(5)}/changes` },
  { name: "changes-pull-refused", path: `/agents/${demoId(103)}/changes`, click: ["text=Open pull request", ".dialog .button.first"] },
  { name: "files", path: `/agents/${demoId(1)}/files?file=src/outbox/deliver.ts` },
  { name: "files-none", path: `/agents/${demoId(1)}/files` },
  { name: "files-picture", path: `/agents/${demoId(1)}/files?file=logo.png` },
  { name: "files-binary", path: `/agents/${demoId(1)}/files?file=data.sqlite` },
  { name: "files-large", path: `/agents/${demoId(1)}/files`, click: "text=trace.log" },
  { name: "files-hostile", path: `/agents/${demoId(1)}/files`, click: "[role=treeitem]:has-text('onerror')" },
  { name: "files-new", path: `/agents/${demoId(1)}/files`, click: "[aria-label='New file']" },
  { name: "files-delete", path: `/agents/${demoId(1)}/files`, click: ["[role=treeitem]:has-text('src')", "[aria-label='Delete']"] },
  { name: "files-gone", path: `/agents/${demoId(1)}/files?file=none.ts` },
  { name: "files-empty", path: `/agents/${demoId(1)}/files?demo=empty` },
  { name: "files-error", path: `/agents/${demoId(1)}/files?demo=error` },
  { name: "files-asleep", path: `/agents/${demoId(5)}/files` },
  { name: "machine", path: `/agents/${demoId(1)}/machine` },
  { name: "desktop", path: `/agents/${demoId(1)}/machine?desktop` },
  { name: "desktop-clipboard", path: `/agents/${demoId(1)}/machine?desktop`, click: ["text=Take over", "text=Clipboard"] },
  { name: "desktop-none", path: `/agents/${demoId(1)}/machine?desktop&demo=empty` },
  { name: "machine-asleep", path: `/agents/${demoId(5)}/machine` },
  { name: "machine-none", path: `/agents/${demoId(3)}/machine` },
  { name: "fork", path: `/agents/${demoId(1)}`, click: "text=Fork" },
  { name: "approvals", path: "/approvals" },
  { name: "approvals-empty", path: "/approvals?demo=empty" },
  { name: "automations", path: "/automations" },
  { name: "automations-empty", path: "/automations?demo=empty" },
  { name: "automations-new", path: "/automations", click: "role=button[name='New automation']" },
  { name: "automation", path: "/automations/auto-1" },
  { name: "automation-paused", path: "/automations/auto-2" },
  { name: "automation-start", path: "/automations/auto-1", click: ["role=button[name='Start']", "text=Show prompt"] },
  { name: "environments", path: "/environments" },
  { name: "environments-empty", path: "/environments?demo=empty" },
  { name: "environments-loading", path: "/environments?demo=loading" },
  { name: "environments-error", path: "/environments?demo=error" },
  { name: "environments-offline", path: "/environments?demo=offline" },
  { name: "environment", path: "/environments/env-1" },
  { name: "environment-details", path: "/environments/env-1", click: "text=Name and repositories" },
  { name: "environment-builds", path: "/environments/env-1/builds", click: "text=Log" },
  { name: "environment-builds-empty", path: "/environments/env-1/builds?demo=empty" },
  { name: "environment-snapshots", path: "/environments/env-1/snapshots" },
  { name: "environment-snapshots-empty", path: "/environments/env-1/snapshots?demo=empty" },
  { name: "environment-secrets", path: "/environments/env-1/secrets" },
  { name: "environment-history", path: "/environments/env-1/history", click: "text=Show" },
  { name: "environment-history-split", path: "/environments/env-1/history", click: ["text=Side by side", "li:last-child >> text=Changes"] },
  { name: "setup", path: "/environments/setup" },
  { name: "setup-machine", path: `/environments/setup/${demoId(50)}` },
  { name: "setup-begin-agent", path: "/environments/setup", click: "text=Let an agent do it" },
  { name: "setup-agent", path: `/environments/setup/${demoId(51)}` },
  { name: "setup-agent-working", path: `/environments/setup/${demoId(52)}` },
  { name: "setup-agent-proposal", path: `/environments/setup/${demoId(51)}`, click: "text=View proposal" },
  { name: "settings", path: "/settings" },
  { name: "settings-mcp", path: "/settings?sign-in=mcp-1#mcp-servers", click: "[aria-label='Test errors']" },
  { name: "settings-empty", path: "/settings?demo=empty" },
  { name: "settings-error", path: "/settings?demo=error" },
  { name: "palette", path: "/agents", keys: "Control+k" },
  { name: "not-found", path: "/nowhere" },
  { name: "sign-in", path: "/sign-in" },
  { name: "sign-in-key", path: "/sign-in", click: "button.quiet" },
  { name: "account", path: "/account" },
  { name: "account-empty", path: "/account?demo=empty" },
  { name: "account-error", path: "/account?demo=error" },
  { name: "team", path: "/team" },
  { name: "team-empty", path: "/team?demo=empty" },
  { name: "team-loading", path: "/team?demo=loading" },
];
