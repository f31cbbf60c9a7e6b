/** Texts about the rules for an agent's work. */
export const rules = {
  agentRules: {
    title: "Rules",
    lead: (tokens: string) => `These texts tell the agent how to work. They have ${tokens} tokens.`,
    from: { team: "Team", repository: "Repository", user: "Owner", memory: "Memory" },
    given: { yes: "given", offered: "offered", no: "not needed yet" },
    tokens: (n: string) => `${n} tokens`,
    always: "Always",
    files: (globs: string) => `For ${globs}`,
    request: (description: string) => `If it fits: ${description}`,
    mention: "By name",
    inFolder: (when: string, folder: string) => `${when}, in ${folder}`,
    more: (n: number) => `Show ${n} more`,
    leftOut: (n: number) => `${n} not used, or not as written`,
  },
} as const;
