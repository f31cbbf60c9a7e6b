/** A comment on a line of a diff: of the whole branch, or of one turn's edits. */
export type Comment = { path: string; line: number; side: "old" | "new"; code: string; text: string; turn?: number };

export const placeOfComment = (c: Pick<Comment, "path" | "line" | "side" | "turn">) => `${c.path}:${c.side}:${c.line}${c.turn ? `:${c.turn}` : ""}`;

/** Returns a follow-up prompt with the comments, each with its file and line. */
export function promptOf(comments: readonly Comment[], intro: string): string {
  const one = (c: Comment) => {
    const fence = "`".repeat(Math.max(3, ...[...c.code.matchAll(/`+/g)].map((m) => m[0].length + 1)));
    return `${c.path}:${c.line}${c.turn ? ` (as of turn ${c.turn})` : ""}${c.side === "old" ? " (before your change)" : ""}\n${fence}\n${c.code}\n${fence}\n${c.text.trim()}`;
  };
  const sorted = [...comments].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : (a.turn ?? 0) - (b.turn ?? 0) || a.line - b.line));
  return `${intro}\n\n${sorted.map(one).join("\n\n")}`;
}
