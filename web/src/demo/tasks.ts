import { boot, call, done, inTask, replied, usage, type Bare } from "./journal";

/** The calls of a computer-use subagent: some act, some only take a screenshot. */
const acted = (callId: string, text: string, n: number, pictures: number, cursor: { x: number; y: number }, durationMs: number): Bare[] => [
  { kind: "call.judged", data: { callId, treatment: "run", by: "policy" } },
  { kind: "call.sent", data: { callId } },
  { kind: "call.done", data: { callId, text, durationMs, images: Array.from({ length: pictures }, () => ({ mediaType: "image/webp" })), output: { success: { actionsDone: n, cursor, durationMs } } } },
];

const onDesktop = (): Bare[] => [
  replied({ text: "I look at the screen first." }, call("w1_0_0", "ComputerUse", { actions: [{ screenshot: {} }] })),
  ...acted("w1_0_0", "Did 1 action. The pointer is at 640,400.", 1, 1, { x: 640, y: 400 }, 2_110),
  replied(
    { text: "The form is open. I fill it in, and send it." },
    call("w1_1_0", "ComputerUse", {
      actions: [
        { click: { coordinate: { x: 512, y: 286 } } }, { type: { text: "1.234,56 €" } }, { key: { key: "Tab" } }, { type: { text: "Köln, Domstraße 1\n50668" } },
        { screenshot: {} }, { scroll: { coordinate: { x: 640, y: 500 }, direction: "SCROLL_DIRECTION_DOWN", amount: 3 } }, { click: { coordinate: { x: 590, y: 702 } } }, { wait: { duration_ms: 500 } }, { screenshot: {} },
      ],
    }),
  ),
  ...acted("w1_1_0", "Did 9 actions. The pointer is at 590,702.", 9, 2, { x: 590, y: 702 }, 6_420),
  replied(call("w1_2_0", "ComputerUse", { actions: [{ drag: { start: { x: 200, y: 300 }, end: { x: 420, y: 300 } } }, { key: { key: "ctrl+c" } }, { click: { coordinate: { x: 1500, y: 20 }, button: "MOUSE_BUTTON_RIGHT" } }] })),
  { kind: "call.judged", data: { callId: "w1_2_0", treatment: "run", by: "policy" } },
  { kind: "call.sent", data: { callId: "w1_2_0" } },
  { kind: "call.done", data: { callId: "w1_2_0", text: "action 3 of 3, click: the coordinate 1500,20 is outside the screen, which extends from 0,0 to 1279,799; no action was performed", error: true, durationMs: 4 } },
  replied({ text: "The form takes the amount with a comma, and says `Total: 1.469,13 €`, as the rules have it." }),
];

const watched = (): Bare[] => [
  replied(call("w2_0_0", "Shell", { command: "make nightly 2>&1 | tail -n 3", description: "build as the night does" })),
  { kind: "call.judged", data: { callId: "w2_0_0", treatment: "sandboxed", by: "policy" } },
  { kind: "call.sent", data: { callId: "w2_0_0" } },
  { kind: "call.delta", data: { callId: "w2_0_0", stdout: "tax: 412 of 900 cases\n" } },
];

/** An agent with one subagent that uses the desktop and another in the background. */
export const delegating = (): Bare[] => [
  { kind: "run.created", data: { prompt: { role: "user", blocks: [{ text: "Write tests for the tax rules, and try the form as a customer would." }] } } },
  ...boot,
  replied({ text: "The nightly build takes long: it is watched in the background while I go on." }, call("w2", "Task", { description: "Watch the nightly build", prompt: "Build as the night does, and say what fails.", subagent_type: "generalPurpose", is_background: true })),
  { kind: "call.sent", data: { callId: "w2" } },
  { kind: "task.began", data: { callId: "w2", id: "w2", type: "generalPurpose", description: "Watch the nightly build", task: "Build as the night does, and say what fails.", model: "haiku", background: true } },
  { kind: "call.done", data: { callId: "w2", text: "It works in the background; you are told when it has ended.", durationMs: 3 } },
  ...inTask("w2", watched()),
  replied(call("w3", "Write", { path: "/workspace/src/tax/rules.test.ts", contents: "test(\"a comma is no thousand\", () => expect(parse(\"1.234,56\")).toBe(1234.56));\n" })),
  ...done("w3", "written", { path: "/workspace/src/tax/rules.test.ts" }, 9),
  replied(call("w1", "Task", { description: "Try the tax form", prompt: "Open the form, enter an amount as Germans write it, and say what total it shows.", subagent_type: "computerUse" })),
  { kind: "call.sent", data: { callId: "w1" } },
  { kind: "task.began", data: { callId: "w1", id: "w1", type: "computerUse", description: "Try the tax form", task: "Open the form, enter an amount as Germans write it, and say what total it shows.", model: "opus" } },
  ...inTask("w1", onDesktop()),
  { kind: "task.ended", data: { callId: "w1", status: "completed", durationMs: 41_000, turns: 4, toolCalls: 3, usage } },
  { kind: "call.done", data: { callId: "w1", text: "The form takes the amount with a comma.", durationMs: 41_000, output: { success: { answer: "The form takes the amount with a comma." } } } },
  { kind: "agent.paused", data: {} },
];
