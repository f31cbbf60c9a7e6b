/** File names that look like other names if the browser reorders their characters. */
export const hostileNames = [
  ".gitignore", ".github/workflows/ci.yml", "src/\u202Egpj.exe", "src/שלום/קובץ.ts", "2024/אבג/1.txt", "a\u2067b/c\u200Bd.sh",
  "services/checkout/internal/adapters/persistence/postgres/migrations/0042_add_the_column_that_was_forgotten.sql",
];

/** A diff of files with these names. */
export const hostileDiff = hostileNames
  .map((name) => `diff --git a/${name} b/${name}\nnew file mode 100644\n--- /dev/null\n+++ b/${name}\n@@ -0,0 +1,2 @@\n+if (user.isAdmin) { // \u202E } \u2066if (true)\n+const שם = "ערך";\n`)
  .join("");

/** A model's message that mixes both text directions. */
export const twoWays = "سأشغّل الاختبارات أولاً بالأمر `npm test -- --run` ثم أدفع الفرع.\n\n```sh\ngit push --force origin main && rm -rf build/\n```\n\nThe tests pass.\n\n1. `make test` ثم `make lint`\n\n| ملف | lines |\n|---|---|\n| src/a.ts | 12 |";
