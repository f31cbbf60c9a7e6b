// Writes internal/control/inbound/testdata/github.json.gz: GitHub's published
// examples of webhook events, each signed by GitHub's own library. Run it with
// `node hack/webhook-examples.mjs` after `npm ci` in hack.
import { sign } from "@octokit/webhooks-methods";
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const examples = createRequire(import.meta.url)("@octokit/webhooks-examples");
const secret = "It's a Secret to Everybody";
const whole = /^(check_run|check_suite|issue_comment|pull_request.*|status|workflow_.*)$/; // the others have one example
const out = [];
for (const { name, examples: all } of examples.default ?? examples) {
  for (const payload of whole.test(name) ? all : all.slice(0, 1)) {
    const body = JSON.stringify(payload);
    out.push({ kind: name, body, signature: await sign(secret, body) });
  }
}
const file = new URL("../internal/control/inbound/testdata/github.json.gz", import.meta.url);
writeFileSync(file, gzipSync(JSON.stringify(out), { level: 9 }));
console.log(`${out.length} examples`);
