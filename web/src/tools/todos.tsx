import { todosOf, type Transcript } from "../journal/fold";
import { Icon, type IconName } from "../parts/Icon";
import { shownLine } from "../parts/clip";
import { words } from "../words";
import { plain } from "./plain";
import type { Tool } from "./tool";

const icons: Record<string, IconName> = { completed: "check", in_progress: "right", cancelled: "close" };

export function TodoList({ todos }: { todos: Transcript["todos"] }) {
  return (
    <ul className="todos">
      {todos.map((t) => (
        <li key={t.id} data-status={t.status}>
          <Icon name={icons[t.status] ?? "clock"} />
          <span className="seen-by-readers">{words.todo[t.status as keyof typeof words.todo] ?? t.status}: </span>
          <span dir="auto">{shownLine(t.content, 2_000)}</span>
        </li>
      ))}
    </ul>
  );
}

/** Shows the todo list. */
export const todos: Tool = {
  icon: "list",
  subject: () => words.tools.todos,
  outcome: (c) => {
    const list = todosOf(c);
    return list ? words.tools.doneOf(list.filter((t) => t.status === "completed").length, list.length) : "";
  },
  open: (c) => todosOf(c) !== undefined,
  body: (c) => {
    const list = todosOf(c);
    return list ? <TodoList todos={list} /> : plain.body(c);
  },
};
