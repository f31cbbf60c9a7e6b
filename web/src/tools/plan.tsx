import { Markdown } from "../parts/Markdown";
import { clip } from "../parts/clip";
import { words } from "../words";
import { TodoList } from "./todos";
import { text } from "../parts/call";
import type { Tool } from "./tool";

/** A proposed plan with its steps, and the answer to it. */
export const plan: Tool = {
  icon: "list",
  subject: (c) => text(c.args["name"]) || text(c.args["title"]) || words.tools.plan,
  outcome: (c) => (c.state === "done" ? words.tools.approved : ""),
  open: () => true,
  body: (c) => {
    const todos = Array.isArray(c.args["todos"]) ? c.args["todos"].filter((t): t is Record<string, unknown> => t !== null && typeof t === "object") : [];
    return (
      <div className="plan" role="group" aria-label={words.tools.plan} tabIndex={0}>
        {text(c.args["overview"]) && (
          <p className="muted" dir="auto">
            {clip(text(c.args["overview"]), 20_000)}
          </p>
        )}
        <Markdown text={text(c.args["plan"]) || c.text} />
        {todos.length > 0 && <TodoList todos={todos.map((t, i) => ({ id: text(t["id"]) || String(i), content: text(t["content"]), status: text(t["status"]) || "pending" }))} />}
        {c.state === "failed" && text(c.args["plan"]) && <p className="small muted">{clip(c.text, 20_000)}</p>}
      </div>
    );
  },
};
