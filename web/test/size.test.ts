import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { build } from "vite";
import { expect, test } from "vitest";

const firstLoad = 140 << 10; // bytes, compressed
const firstFiles = 6; // each file costs up to a round trip
const root = join(import.meta.dirname, "..");

// The files that a browser fetches before it shows the agents: the page, what
// it names, and what its scripts import immediately.
test("the first load is small, and everything is packed", async () => {
  const dir = mkdtempSync(join(tmpdir(), "aloft-web-"));
  try {
    process.env["NODE_ENV"] = "production"; // instead of the test's value
    await build({ root, mode: "production", logLevel: "error", build: { outDir: dir } });
    const names = readdirSync(dir, { recursive: true, encoding: "utf8" }).filter((n) => statSync(join(dir, n)).isFile());
    expect(names.filter((n) => !/\.(gz|br)$/.test(n))).toEqual([]);
    expect(names.filter((n) => n.endsWith(".br")).length).toBe(names.filter((n) => n.endsWith(".gz")).length);
    const seen = new Set(["index.html"]);
    let total = 0;
    for (const name of seen) {
      const packed = readFileSync(join(dir, `${name}.gz`));
      total += packed.length;
      const text = gunzipSync(packed).toString();
      const asked = name.endsWith(".html") ? text.matchAll(/(?:src|href)="\/([^"]+)"/g) : text.matchAll(/(?:^|[;\s}])import\s*(?:[\w{}*,$\s]+from\s*)?["']\.?\/([^"']+)["']/g);
      for (const [, one] of asked) if (one) seen.add(name.startsWith("assets/") && !one.startsWith("assets/") ? `assets/${one}` : one);
    }
    console.log(`first load: ${(total / 1024).toFixed(0)} KiB in ${seen.size} files`);
    expect(total).toBeLessThan(firstLoad);
    expect(seen.size).toBeLessThanOrEqual(firstFiles);
    const page = gunzipSync(readFileSync(join(dir, "index.html.gz"))).toString();
    expect(page).not.toMatch(/<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=|https?:\/\//);
  } finally {
    rmSync(dir, { recursive: true });
  }
});
