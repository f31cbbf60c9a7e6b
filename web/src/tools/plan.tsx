import { Markdown } from "../parts/Markdown";
import { words } from "../words";
import { text, type Tool } from "./tool";

/** A plan that was proposed. */
export const plan: Tool = {
  icon: "list",
  subject: (c) => text(c.args["name"]) || text(c.args["title"]) || words.tools.plan,
  open: () => true,
  body: (c) => <Markdown text={text(c.args["plan"]) || text(c.args["overview"]) || c.text} />,
};
