import type { AgentContext } from "../api/types";

export const agentContext: AgentContext = {
  tokens: 1_240,
  rules: [
    { source: ".cursor/skills/release/SKILL.md", kind: "skill", from: "repository", when: "request", description: "How to make a release", tokens: 0, given: "offered" },
    { source: "rules.md", kind: "rule", from: "team", when: "always", tokens: 180, given: "yes" },
    { source: "AGENTS.md", kind: "rule", from: "repository", when: "always", imports: ["docs/style.md"], tokens: 960, given: "yes" },
    { source: ".cursor/rules/tests.mdc", kind: "rule", from: "repository", when: "files", globs: ["*.test.ts"], tokens: 100, given: "yes" },
    { source: ".cursor/rules/migrations.mdc", kind: "rule", from: "repository", when: "request", description: "How to write database migrations", tokens: 420, given: "offered" },
    { source: "legacy/AGENTS.md", kind: "rule", from: "repository", when: "always", folder: "legacy", tokens: 75, given: "no" },
  ],
  leftOut: [{ source: "docs/CLAUDE.md", why: "it has 81234 bytes, more than 65536" }],
};
