import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** Compresses each file by gzip and Brotli. The server carries only these two forms. */
function pack(): Plugin {
  let dir = "";
  return {
    name: "pack",
    apply: "build",
    configResolved(config) {
      dir = config.build.outDir;
    },
    closeBundle() {
      for (const name of readdirSync(dir, { recursive: true, encoding: "utf8" })) {
        const path = join(dir, name);
        if (!statSync(path).isFile() || path.endsWith(".gz") || path.endsWith(".br")) continue;
        const data = readFileSync(path);
        writeFileSync(`${path}.gz`, gzipSync(data, { level: 9 }));
        writeFileSync(`${path}.br`, brotliCompressSync(data, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: data.length } }));
        rmSync(path);
      }
    },
  };
}

/** Passes the address of the script of an agent's page to public/early.js. */
function early(): Plugin {
  return {
    name: "early",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler(html, { bundle = {} }) {
        const script = Object.values(bundle).find((part) => part.type === "chunk" && part.moduleIds.some((id) => id.endsWith("/src/agent/Page.tsx")));
        if (!script) throw new Error("no script has the page of an agent");
        return html.replace('data-agent=""', `data-agent="/${script.fileName}"`);
      },
    },
  };
}

/** Whether a page needs a module as soon as it is shown. */
function needs(page: string, id: string, about: (id: string) => { importers: string[] } | null, seen = new Set<string>()): boolean {
  if (id.endsWith(page)) return true;
  if (seen.has(id)) return false;
  seen.add(id);
  return about(id)?.importers.some((by) => needs(page, by, about, seen)) ?? false;
}

// In mode demo, sample data replaces the server.
export default defineConfig(({ mode }) => ({
  plugins: mode === "demo" ? [react()] : [react(), early(), pack()],
  build: {
    outDir: mode === "demo" ? "node_modules/.demo" : "../cmd/aloft/embedded/web",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the policy of the page allows no data: scripts and fonts
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    target: ["chrome123", "firefox121", "safari17.5"],
    rollupOptions: {
      output: {
        entryFileNames: "assets/a-[hash].js",
        chunkFileNames: "assets/c-[hash].js",
        assetFileNames: "assets/s-[hash][extname]",
        // Each file costs a round trip, so the first view needs only one file, and the page of an agent one
        // more.
        codeSplitting: {
          groups: [
            { name: "first", tags: ["$initial"], priority: 2 },
            { debugName: "agent", name: (id, graph) => (needs("/src/agent/Page.tsx", id, (m) => graph.getModuleInfo(m)) ? "agent" : null), priority: 1 },
          ],
        },
      },
    },
  },
  test: { include: ["shots", "person", "endures", "perf", "journey", "lighthouse"].includes(mode) ? [`test/${mode}.ts`] : ["src/**/*.test.ts", "test/**/*.test.ts"], testTimeout: 300_000, hookTimeout: 300_000, maxWorkers: 2 },
}));
