import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "vitest";
import { openBrowser, serveDemo, show, views } from "./browser";

// Takes a screenshot of every view, in dark and light mode, on a phone, a
// laptop and a large screen, into node_modules/.shots. VIEWS selects views by
// the beginning of their names, SIZES selects sizes.
const chosen = (name: string) => (process.env[name] ?? "").split(" ").filter(Boolean);
const wanted = chosen("VIEWS");
const out = join(import.meta.dirname, "../node_modules/.shots");
const sizes = [
  { name: "light", colorScheme: "light", width: 1280, height: 800 },
  { name: "dark", colorScheme: "dark", width: 1280, height: 800 },
  { name: "phone", colorScheme: "light", width: 360, height: 740 },
  { name: "phone-dark", colorScheme: "dark", width: 360, height: 740 },
  { name: "wall", colorScheme: "light", width: 3840, height: 2160 },
  { name: "wall-dark", colorScheme: "dark", width: 3840, height: 2160 },
] as const;
// The README's picture, if SIZES selects it (npm run --prefix web pictures).
const readme = { name: "readme", colorScheme: "dark", width: 1440, height: 900 } as const;
const pictures: Record<string, string> = { "agent-working": "agent.png", "changes-split": "changes.png" };
const some = chosen("SIZES");
test("pictures", { timeout: 600_000 }, async () => {
  mkdirSync(out, { recursive: true });
  const demo = await serveDemo();
  const browser = await openBrowser();
  try {
    for (const size of [...sizes, ...(some.includes(readme.name) ? [readme] : [])]) {
      if (some.length > 0 && !some.includes(size.name)) continue;
      const context = await browser.newContext({ colorScheme: size.colorScheme, viewport: { width: size.width, height: size.height }, reducedMotion: "reduce" });
      for (const view of views) {
        if (wanted.length > 0 && !wanted.some((w) => view.name.startsWith(w))) continue;
        const page = await context.newPage();
        page.on("console", (m) => m.type() === "error" && console.error(`${view.name}: ${m.text()}`));
        page.on("pageerror", (e) => console.error(`${view.name}: ${e.message}`));
        await show(page, demo.url, view);
        const own = size === readme ? pictures[view.name] : undefined;
        await page.screenshot({ path: own ? join(import.meta.dirname, "../../docs/pictures", own) : join(out, `${view.name}.${size.name}.png`) });
        await page.close();
      }
      await context.close();
    }
  } finally {
    await browser.close();
    await demo.close();
  }
  console.log(`pictures are in ${out}`);
});
