import { computer } from "./computer";
import { edit } from "./edit";
import { findings } from "./findings";
import { grep } from "./grep";
import { files, plain, web } from "./plain";
import { plan } from "./plan";
import { pull } from "./pull";
import { question } from "./question";
import { read } from "./read";
import { recording } from "./recording";
import { search } from "./search";
import { shell } from "./shell";
import { todos } from "./todos";
import { task } from "./task";
import type { Tool } from "./tool";

/** The views of calls by tool name; other tools have the plain view. */
const tools: Record<string, Tool> = {
  Shell: shell, Await: { ...shell, subject: plain.subject, body: plain.body }, StrReplace: edit, Write: edit, EditNotebook: edit, Grep: grep, SemSearch: { ...plain, icon: "search" },
  Read: read, LS: files, Glob: files, Delete: files, TodoWrite: todos, ReadTodos: todos, Task: task, CreatePlan: plan, PrManagement: pull, ReportFindings: findings, AskQuestion: question, RecordScreen: recording, ComputerUse: computer, Fetch: web, WebFetch: web, WebSearch: search,
};

export const toolOf = (name: string): Tool => (Object.hasOwn(tools, name) ? tools[name] : undefined) ?? plain;
