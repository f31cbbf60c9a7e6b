import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "vitest";
import { openBrowser, serveDemo, show, views } from "./browser";

// Takes a picture of every view, in dark and light and on a phone, into
// node_modules/.shots. VIEWS chooses views by the beginning of their names.
const wanted = (process.env["VIEWS"] ?? "").split(" ").filter(Boolean);
const out = join(import.meta.dirname, "../node_modules/.shots");
const sizes = [
  { name: "light", colorScheme: "light", width: 1440, height: 900 },
  { name: "dark", colorScheme: "dark", width: 1440, height: 900 },
  { name: "phone", colorScheme: "light", width: 360, height: 740 },
] as const;
test("pictures", { timeout: 600_000 }, async () => {
  mkdirSync(out, { recursive: true });
  const demo = await serveDemo();
  const browser = await openBrowser();
  try {
    for (const size of sizes) {
      const context = await browser.newContext({ colorScheme: size.colorScheme, viewport: { width: size.width, height: size.height }, reducedMotion: "reduce" });
      for (const view of views) {
        if (wanted.length > 0 && !wanted.some((w) => view.name.startsWith(w))) continue;
        const page = await context.newPage();
        page.on("console", (m) => m.type() === "error" && console.error(`${view.name}: ${m.text()}`));
        page.on("pageerror", (e) => console.error(`${view.name}: ${e.message}`));
        await show(page, demo.url, view);
        await page.screenshot({ path: join(out, `${view.name}.${size.name}.png`) });
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
