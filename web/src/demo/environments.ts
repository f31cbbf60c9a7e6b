import type { Schema } from "../api/client";
import type { Build, Checked, EnvironmentDetail, EnvironmentVersion, Proposed, Secret, Snapshot, VersionDiff } from "../api/types";
import { minutesAgo } from "./agents";

const environmentJson = `{
  "build": { "dockerfile": "Dockerfile" },
  "instal": "npm ci", // a typing error that the editor marks
  "start": "sudo service postgresql start",
  "terminals": [{ "name": "web", "command": "npm run dev" }],
  "ports": [3000, 70000]
}
`;

const environment = (id: string, name: string, owner: "personal" | "team", repo: string): EnvironmentDetail => ({
  id, name, owner, repos: [{ url: `https://git.example.com/${repo}` }], createdAt: minutesAgo(9000), updatedAt: minutesAgo(400), environmentJson, versionId: "v3",
});

export const environments = [environment("env-1", "Shop", "team", "acme/shop"), environment("env-2", "Infrastructure", "team", "acme/infra"), environment("env-3", "My own try", "personal", "acme/web")];

const build = (id: string, status: Build["status"], minutes: number, more: Partial<Build> = {}): Build => ({
  id, environmentId: "env-1", status, trigger: "CONFIG_CHANGE", repos: [], createdAt: minutesAgo(minutes), ...(status === "IN_PROGRESS" ? {} : { endedAt: minutesAgo(minutes - 2) }), ...more,
});

export const builds = [
  build("b3", "IN_PROGRESS", 1),
  build("b2", "FAILED", 300, { failureType: "INSTALL_FAILED", message: "the install command ended with 1", exitCode: 1 }),
  build("b1", "SUCCEEDED", 1500, { trigger: "RECURRING" }),
];

export const buildLog = "\u001b[1m#5\u001b[0m RUN apt-get update\n\u001b[1m#6\u001b[0m RUN npm ci\n\u001b[32madded 412 packages in 14s\u001b[0m\n\u001b[33mnpm warn\u001b[0m deprecated glob@7\n";

const secret = (name: string, owner: Secret["owner"], type: Secret["type"], minutes: number): Secret => ({ id: name, name, owner, type, repos: [], createdAt: minutesAgo(minutes) });

export const secrets = [secret("NPM_TOKEN", "team", "build_secret", 4000), secret("DATABASE_URL", "personal", "runtime_secret", 90), secret("LOG_LEVEL", "team", "environment_variable", 20_000)];

export const environmentSecrets = [secret("STRIPE_KEY", "environment", "runtime_secret", 300), secret("PRISMA_ENGINE", "environment", "environment_variable", 4000)];

/** An extract of the schema. */
export const schema: Schema = {
  type: "object",
  properties: {
    install: { type: "string", description: "Installs what the project needs.", examples: ["npm ci"] },
    start: { type: "string", description: "Runs each time the machine starts.", examples: ["sudo service docker start"] },
    egressMode: { type: "string", description: "How the machine's network is judged.", enum: ["allow_all", "network_settings_only"] },
    ports: { type: "array", description: "Ports that people forward.", items: { type: "integer" } },
  },
};

/** The server's findings about the demo's text. */
export const checked = (text: string): Checked => ({
  findings: [
    ...(text.includes('"instal"') ? [{ line: 3, column: 3, key: "instal", severity: "warning" as const, message: "unknown key; it has no effect", instead: 'write "install"' }] : []),
    ...(text.includes("70000") ? [{ line: 6, column: 19, key: "ports[1]", severity: "error" as const, message: "this is the number 70000", instead: "write a number from 1 to 65535" }] : []),
  ],
  explain: [
    { what: "base", says: text.includes('"dockerfile"') ? "an image of .aloft/Dockerfile; context .aloft" : "the default image" },
    { what: "user", says: "the one of the base" },
    { what: "install", says: /"install": "(.*?)"/.exec(text)?.[1] ?? "nothing" },
    { what: "start", says: "sudo service postgresql start" },
    { what: "terminal", says: "web: npm run dev" },
    { what: "port", says: "3000" },
  ],
});

const version = (id: string, userId: number, minutes: number, text: string): EnvironmentVersion => ({ versionId: id, userId, createdAt: minutesAgo(minutes), environmentJson: text });
export const versions = [version("v3", 2, 400, environmentJson), version("v2", 1, 2_900, environmentJson.replace('"instal"', '"install"')), version("v1", 1, 9_000, '{ "install": "npm ci" }\n')];

const snapshot = (n: number, minutes: number, more: Partial<Snapshot> = {}): Snapshot => ({
  id: `snapshot-20260102-00000000-0000-4000-8000-${String(n).padStart(12, "0")}`, userId: n, agentId: "bc-1", repo: "git.example.com/acme/shop", createdAt: minutesAgo(minutes), sizeBytes: 1_342_177_280 * n, published: false, ...more,
});
export const snapshots = [
  snapshot(1, 600, { usedAt: minutesAgo(30), expiresAt: new Date(Date.now() + 29 * 86_400_000).toISOString() }),
  snapshot(2, 90_000),
];

export const proposal = { id: snapshots[0]?.id ?? "", environmentJson: `{\n  "snapshot": "${snapshots[0]?.id ?? ""}",\n  "install": "npm ci",\n  "terminals": [{"name": "dev", "command": "npm run dev"}]\n}\n`, why: ["snapshot: the disk as you left it", "install: what you ran that a switch of branches asks for again"] };

/** The environment that an agent has pushed. */
export const proposed: Proposed = {
  path: ".aloft/environment.json", branch: "aloft/find-out-how-a-machine", findings: [],
  environmentJson: '{\n  // node 20 is the base\'s own\n  "install": "sudo apt-get install -y libvips-dev\\nnpm ci",\n  "start": "sudo service postgresql start",\n  "terminals": [{ "name": "web", "command": "npm run dev" }],\n  "ports": [{ "port": 3000, "name": "web" }]\n}\n',
};

/** The differences between the demo's versions. */
export function versionDiff(from: string, to: string): VersionDiff {
  const older = from || (versions[versions.findIndex((v) => v.versionId === to) + 1]?.versionId ?? "");
  const linesOf = (id: string) => versions.find((v) => v.versionId === id)?.environmentJson.trimEnd().split("\n") ?? [];
  const [was, is] = [linesOf(older), linesOf(to)];
  const same = was.filter((l) => is.includes(l));
  const lines: string[] = [];
  let [i, j] = [0, 0];
  for (const line of [...same, undefined]) {
    for (; i < was.length && was[i] !== line; i++) lines.push(`-${was[i]}`);
    for (; j < is.length && is[j] !== line; j++) lines.push(`+${is[j]}`);
    if (line !== undefined) lines.push(` ${line}`), i++, j++;
  }
  const diff = older === to ? "" : `--- a/environment.json\n+++ b/environment.json\n@@ -1,${was.length} +1,${is.length} @@\n${lines.join("\n")}\n`;
  return { from: older, to, diff };
}
