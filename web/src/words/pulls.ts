/** Texts about pull requests. */
const number = (n: number, one: string, many: string) => (n === 1 ? `1 ${one}` : `${n.toLocaleString()} ${many}`);

export const pulls = {
  pulls: {
    title: "Pull requests",
    none: "No pull requests yet",
    untitled: "Pull request",
    into: (branch: string, base: string) => `${branch} into ${base}`,
    stand: { open: "Open", draft: "Draft", merged: "Merged", closed: "Closed" },
    sign: (number: number, stand: string) => `Pull request #${number}: ${stand}`,
    refresh: "Refresh",
    unseen: (why: string) => `Can't load its current state: ${why}`,
    checks: (all: readonly { state: string }[]) => {
      const n = (state: string) => all.filter((c) => c.state === state).length;
      if (n("failure") > 0) return n("failure") === all.length ? `${number(all.length, "check", "checks")} failed` : `${n("failure")} of ${number(all.length, "check", "checks")} failed`;
      if (n("pending") > 0) return n("pending") === all.length ? `${number(all.length, "check", "checks")} pending` : `${n("pending")} of ${number(all.length, "check", "checks")} pending`;
      return n("success") === all.length ? number(all.length, "check passed", "checks passed") : `${n("success")} of ${number(all.length, "check", "checks")} passed`;
    },
    check: { success: "passed", failure: "failed", pending: "pending", neutral: "neutral" },
    verdict: { approved: "Approved", changes_requested: "Changes requested" },
    threads: (n: number) => (n === 1 ? "1 open thread" : `${n.toLocaleString()} open threads`),
    fix: "Fix failing checks",
    fixTitle: "Send a follow-up: read the logs of the failed checks, fix the causes and push",
    fixPrompt: (pull: string) => `Fix the failing checks of pull request ${pull}. Read their logs, fix the causes, run the checks that you can run here, and push.`,
    review: "Address review",
    reviewTitle: "Send a follow-up: make the changes that reviewers ask for, or reply why not",
    reviewPrompt: (pull: string) => `Address the review of pull request ${pull}. Read the reviews and the unresolved threads. Make the changes that reviewers ask for and push them, or reply why not. Resolve the threads that are done.`,
    askSent: "The follow-up was sent.",
    askQueued: "The follow-up is queued and will be sent when the agent has finished.",
    open: "Open pull request",
    of: (what: string, repo: string) => `${what}: ${repo}`,
    another: "Open another",
    from: (repo: string, branch: string) => `${repo}, from ${branch}`,
    fields: { title: "Title", body: "Description", base: "Base branch", repoUrl: "Repository" } as Record<string, string>,
    proposing: "Drafting…",
    titleHint: "from the commits",
    bodyHint: "Markdown. If empty: the agent's last message, in the project's template.",
    baseHint: "the branch the agent started from",
    draft: "As a draft",
    draftHint: "No reviewers are requested yet.",
    byForge: "Open on the forge instead",
    cancel: "Cancel",
    go: "Open",
    opening: "Opening…",
  },
} as const;
