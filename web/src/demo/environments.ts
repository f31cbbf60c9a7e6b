import type { Build, EnvironmentDetail, Secret } from "../api/types";
import { minutesAgo } from "./agents";

const environmentJson = `{
  "build": { "dockerfile": "Dockerfile" },
  "install": "npm ci",
  "start": "sudo service postgresql start",
  "terminals": [{ "name": "web", "command": "npm run dev" }]
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
