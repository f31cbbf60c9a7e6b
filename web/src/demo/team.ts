import type { Access, ApiKey, AuditEntry, DiskUsage, Memories, Server, Settings, SignedIn, TeamUsage, User } from "../api/types";

const hour = 3_600_000;
const at = (hours: number) => new Date(Date.now() + hours * hour).toISOString();
const day = (n: number) => at(n * 24).slice(0, 10);

export const members: User[] = [
  { id: 1, email: "ada@example.com", firstName: "Ada", lastName: "Lovelace", role: "owner" },
  { id: 2, email: "grace@example.com", firstName: "Grace", lastName: "Hopper", role: "admin" },
  { id: 3, email: "alan.mathison.turing.the.third@a-rather-long-name.example.com", role: "member" },
  { id: 4, email: "eve@example.com", firstName: "Eve", role: "viewer", disabled: true },
];

export const signedIn = (role: User["role"]): SignedIn => ({
  signedIn: true, password: true, passkey: true, provider: "Example", expiresAt: at(700), user: { ...members[0], id: 1, role },
});
export const signedOut: SignedIn = { signedIn: false, password: false, passkey: true, provider: "Example" };

export const keys: ApiKey[] = [
  { id: 9, kind: "session", name: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/148.0 Safari/537.36", current: true, createdAt: at(-3), expiresAt: at(717) },
  { id: 4, kind: "key", name: "deploy", createdAt: at(-200) },
];

export const passkeys = [{ id: "AQ", name: "Passkey 1", createdAt: at(-90), usedAt: at(-2) }];

export const audit: AuditEntry[] = [
  { id: 3, time: at(-1), userId: 1, user: "Ada (ada@example.com)", address: "192.0.2.7", action: "updateSettings", outcome: "ok" },
  { id: 2, time: at(-5), userId: 2, user: "Grace (grace@example.com)", address: "192.0.2.9", action: "updateMember", target: "4", outcome: "ok" },
  { id: 1, time: at(-30), address: "203.0.113.66", action: "signIn", target: "root@example.com", outcome: "unauthorized" },
];

const repositories = ["https://git.example.com/acme/shop", "https://git.example.com/acme/web"];
export const usage: TeamUsage = {
  from: day(-29), to: day(0),
  items: Array.from({ length: 30 }, (_, i) => i).filter((i) => i % 7 < 5).flatMap((i) =>
    repositories.map((repository, r) => ({
      day: day(i - 29), userId: r + 1, user: r ? "Grace (grace@example.com)" : "Ada (ada@example.com)", repository, model: r ? "local" : "opus", runs: 3 + r, turns: 40,
      inputTokens: 40_000 + 9_000 * ((i * 7) % 11), outputTokens: 9_000 + 800 * i, cacheReadTokens: 210_000, cacheWriteTokens: 12_000,
      ...(r ? { unpricedTokens: 271_000 } : { costUsd: 0.31 + i / 100 }),
    })),
  ),
};

export const diskUsage: DiskUsage = {
  quotaBytes: 20 * 1024 ** 3, quotaInodes: 0, omitted: 0, incomplete: false, items: [],
  held: [
    { kind: "push", agentId: "bc-6a1f0c3e", userId: 2, user: "Grace (grace@example.com)", count: 1, bytes: 4 * 1024 ** 3 },
    { kind: "stream", userId: 1, user: "Ada (ada@example.com)", count: 3, bytes: 0 },
  ],
  people: [
    { userId: 0, bytes: 31 * 1024 ** 3, inodes: 812_000 },
    { userId: 1, user: "Ada (ada@example.com)", bytes: 12.4 * 1024 ** 3, inodes: 402_113 },
    { userId: 2, user: "Grace (grace@example.com)", bytes: 21.2 * 1024 ** 3, inodes: 90_220 },
  ],
};

export const server: Server = {
  models: [
    { id: "claude-sonnet-4-5", provider: "anthropic", source: "configuration" },
    { id: "qwen3-coder", provider: "openai", name: "qwen3-coder:30b", baseUrl: "http://127.0.0.1:11434/v1", source: "connected" },
  ],
  gitServers: [{ host: "git.acme.example", url: "https://git.acme.example", forge: "gitea", source: "connected" }],
  ignored: [],
};

export const settings: Settings = {
  defaultModel: "opus", fastModel: "", defaultRepository: "https://git.example.com/acme/shop", baseBranch: "", displayAgentSummary: true,
  displayAgentSummaryExternally: false, privacyMode: false, fixFailedChecks: true, retentionDays: 90, machineRetentionDays: 7,
  maxTurns: 0, maxTokens: 0, maxCostUsd: 20, maxSeconds: 4 * 3600,
  memory: "review", memoryRepositories: [],
  networkMode: "default_with_network_settings", networkAllowlist: ["*.acme.example", "192.0.2.0/24"],
};

const written = { agentId: "bc-00000000-0000-4000-8000-000000000009", runId: "run-1" };
const someDay = "2026-03-04T05:06:07Z";

export const memories: Memories = {
  repositories: ["git.example.com/acme/shop", "git.example.com/acme/web"],
  items: [
    {
      id: "mem-1", repository: "git.example.com/acme/shop", status: "proposed", author: written, createdAt: someDay, updatedAt: someDay, revision: 1,
      proposal: { action: "create", title: "Tests need a database", text: "Start it with `docker compose up -d db` before `npm test`; otherwise the tests wait for two minutes.", author: written, createdAt: someDay },
    },
    { id: "mem-2", repository: "git.example.com/acme/web", status: "approved", title: "Icons", text: "Icons come from the design team. Do not edit the SVG files by hand.", author: { userId: 1 }, createdAt: someDay, updatedAt: someDay, revision: 3 },
  ],
  truncated: false,
};

export const access: Access = { mode: "allow-list", everyone: ["git.example.com/acme/*"], members: [{ userId: 3, repositories: ["git.example.com/labs/probe"] }] };

export const rules: Record<string, string> = {
  "team/run-mode": "auto-review", "me/permissions.json": '{\n  // what runs without asking\n  "terminalAllowlist": ["npm test", "git:*"]\n}\n', "team/deny-after": "8h",
};
