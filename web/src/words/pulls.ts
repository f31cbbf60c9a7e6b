/** Words of pull requests. */
const number = (n: number, one: string, many: string) => (n === 1 ? `1 ${one}` : `${n.toLocaleString()} ${many}`);

export const pulls = {
  pulls: {
    title: "Pull requests",
    none: "No pull request yet",
    untitled: "Pull request",
    into: (branch: string, base: string) => `${branch} into ${base}`,
    stand: { open: "Open", draft: "Draft", merged: "Merged", closed: "Closed" },
    sign: (number: number, stand: string) => `Pull request #${number}: ${stand}`,
    refresh: "Look at the forge again",
    unseen: (why: string) => `How it stands now is not known: ${why}`,
    checks: (all: readonly { state: string }[]) => {
      const n = (state: string) => all.filter((c) => c.state === state).length;
      if (n("failure") > 0) return n("failure") === all.length ? `${number(all.length, "check", "checks")} failed` : `${n("failure")} of ${number(all.length, "check", "checks")} failed`;
      if (n("pending") > 0) return n("pending") === all.length ? `${number(all.length, "check", "checks")} to come` : `${n("pending")} of ${number(all.length, "check", "checks")} to come`;
      return n("success") === all.length ? number(all.length, "check passed", "checks passed") : `${n("success")} of ${number(all.length, "check", "checks")} passed`;
    },
    check: { success: "passed", failure: "failed", pending: "runs", neutral: "no verdict" },
    open: "Open pull request",
    of: (what: string, repo: string) => `${what}: ${repo}`,
    another: "Open another",
    from: (repo: string, branch: string) => `${repo}, from ${branch}`,
    fields: { title: "Title", body: "Description", base: "Into the branch", repoUrl: "Repository" } as Record<string, string>,
    proposing: "Is being made up…",
    titleHint: "made of the commits",
    bodyHint: "Markdown. Left empty, it is what the agent said last, in the project's template.",
    baseHint: "the one that the agent began with",
    draft: "As a draft",
    draftHint: "Nobody is asked to review it yet.",
    byForge: "On the forge's own page instead",
    cancel: "Cancel",
    go: "Open",
    opening: "Opening…",
  },
} as const;
