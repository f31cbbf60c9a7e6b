import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** What the server carries is compressed once, here, and kept only so. */
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
        if (!statSync(path).isFile() || path.endsWith(".gz")) continue;
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
        rmSync(path);
      }
    },
  };
}

// The mode demo has data of its own in the place of a server.
export default defineConfig(({ mode }) => ({
  plugins: mode === "demo" ? [react()] : [react(), pack()],
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
      },
    },
  },
  test: { include: ["shots", "person", "endures", "perf", "journey"].includes(mode) ? [`test/${mode}.ts`] : ["src/**/*.test.ts", "test/**/*.test.ts"], testTimeout: 300_000, hookTimeout: 300_000 },
}));
