import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../src");

/** Returns the imports between folders of src, except imports by tests: "from to", each with an example. */
function importsOfFolders(): Map<string, string> {
  const out = new Map<string, string>();
  for (const file of readdirSync(root, { recursive: true, encoding: "utf8" })) {
    if (!/\.tsx?$/.test(file) || /\.(test|d)\.ts$/.test(file)) continue;
    for (const [, path = ""] of readFileSync(join(root, file), "utf8").matchAll(/\b(?:from|import)\s*\(?\s*"(\.[^"]*)"/g)) {
      const target = normalize(join(dirname(file), path));
      const to = folders.has(target) ? target : dirname(target); // "../words" is words/index.ts
      if (to !== dirname(file)) out.set(`${dirname(file)} ${to}`, `${file} imports ${target}`);
    }
  }
  return out;
}

const folders = new Set(readdirSync(root, { withFileTypes: true }).filter((e) => e.isDirectory()).map((e) => e.name));

test("no two folders import each other", () => {
  const imports = importsOfFolders();
  expect(imports.size).toBeGreaterThan(50);
  const mutual = [...imports].flatMap(([pair, how]) => {
    const back = imports.get(pair.split(" ").reverse().join(" "));
    return back === undefined ? [] : [`${how}, and ${back}`];
  });
  expect(mutual).toEqual([]);
});
