package e2e

import (
	"fmt"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

// hooksFile has one hook for each event of a run. Each hook records its input,
// and some return a decision.
const hooksFile = `{
  // comments are fine
  "version": 1,
  "hooks": {
    "sessionStart": [{"command": "sh .h/note"}],
    "beforeSubmitPrompt": [{"command": "sh .h/note"}],
    "preToolUse": [{"command": "sh .h/note"}, {"command": "sh .h/rename", "matcher": "^Shell$"}, {"command": "sh .h/kill", "matcher": "^LS$"}],
    "beforeShellExecution": [{"command": "sh .h/note"}, {"command": "sh .h/no-rm", "matcher": "\\brm\\b", "failClosed": true}],
    "afterShellExecution": [{"command": "sh .h/note"}],
    "beforeReadFile": [{"command": "sh .h/note"}],
    "afterFileEdit": [{"command": "sh .h/note"}],
    "postToolUse": [{"command": "sh .h/note"}, {"command": "sh .h/context", "matcher": "^Read$"}],
    "postToolUseFailure": [{"command": "sh .h/note"}],
    "afterAgentThought": [{"command": "sh .h/note"}],
    "afterAgentResponse": [{"command": "sh .h/note"}],
    "stop": [{"command": "sh .h/note"}, {"command": "sh .h/goes-on", "loop_limit": 1}],
    "subagentStart": [{"command": "sh .h/note", "matcher": "^looker$"}],
    "subagentStop": [{"command": "sh .h/note", "matcher": "^looker$"}],
    "sessionEnd": [{"command": "sh .h/note"}]
  }
}`

const hooksScript = `
scripts:
  - match: 'run the tests, too'
    turns:
      - text: "I went on."
  - match: 'look at kept'
    turns:
      - calls: [{tool: Shell, args: {command: "cp kept.txt looked.txt"}}]
      - text: "It is kept."
  - turns:
      - thinking: "Hm."
        text: "I begin."
        calls: [{tool: Shell, args: {command: "echo before > said.txt"}}]
      - calls: [{tool: Shell, args: {command: "rm -f kept.txt"}}]
      - calls: [{tool: Read, args: {path: README.md}}]
      - calls: [{tool: Write, args: {path: new.txt, contents: "new"}}]
      - calls: [{tool: Read, args: {path: nosuch.txt}}]
      - calls: [{tool: Shell, args: {command: "echo nonsense"}}]
      - calls: [{tool: LS, args: {}}]
      - calls: [{tool: Task, args: {description: look, prompt: "look at kept.txt", subagent_type: looker}}]
      - text: "That was it."
`

// TestHooks runs a project's hooks in a machine, with a subtest for every event
// of a run and for every effect that a hook can have.
func TestHooks(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("hooks", map[string]string{
		".cursor/agents/looker.md": "---\ndescription: looks\n---\nYou look.\n",
		"README.md":                "hooks\n", "kept.txt": "kept\n", ".cursor/hooks.json": hooksFile,
		".claude/settings.json": `{"hooks":{"PostToolUse":[{"matcher":"Write","hooks":[{"type":"command","command":"echo claude-wrote >> /tmp/claude; cat /tmp/claude >&2; exit 2"}]}]}}`,
		".h/note":               "#!/bin/sh\ncat >> /tmp/told; echo >> /tmp/told; echo \"id=$(id -u) dir=$(pwd) remote=$CURSOR_CODE_REMOTE\" >> /tmp/env; cp /tmp/told /tmp/env . 2>/dev/null; cp \"$CURSOR_TRANSCRIPT_PATH\" transcript; true\n",
		".h/rename":             "#!/bin/sh\nsed -n 's/.*echo before > said.txt.*/{\"updated_input\":{\"command\":\"echo after > said.txt\"}}/p; s/.*echo nonsense.*/{\"updated_input\":{\"command\":[7]}}/p'\n",
		".h/kill":               "#!/bin/sh\nmkdir /tmp/killed || { echo ran-again >> /tmp/told; exit 0; }\nfor p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = exec-daemon ] && kill -9 ${p#/proc/}; done\n",
		".h/no-rm":              "#!/bin/sh\necho '{\"permission\":\"deny\",\"agent_message\":\"nothing is removed here\"}'\n",
		".h/context":            "#!/bin/sh\necho '{\"additional_context\":\"the house style is tabs\"}'\n",
		".h/goes-on":            "#!/bin/sh\necho '{\"followup_message\":\"run the tests, too\"}'\n",
	})
	a := start(t, scripted(t, hooksScript))
	for _, owner := range []string{"me", "team"} {
		file := `{"version":1,"hooks":{"postToolUse":[{"matcher":"^Read$","command":"grep -o 'user_email\":\"[^\"]*' > /tmp/mail; echo '{\"additional_context\":\"set by ` + owner + `\"}'"}]}}`
		if status, reply := a.do("PUT", "/v1/rules/"+owner+"/hooks.json", object{"text": file}); status != 200 {
			t.Fatal(status, reply)
		}
	}
	r := a.finish(a.create(url, "Do it", nil))
	events := a.events(r.AgentID)
	told := gittest.Git(t, git.Path("hooks"), "show", pushed(t, r)+":told")
	for _, event := range []string{
		"sessionStart", "beforeSubmitPrompt", "preToolUse", "beforeShellExecution", "afterShellExecution", "beforeReadFile", "afterFileEdit",
		"postToolUse", "postToolUseFailure", "afterAgentThought", "afterAgentResponse", "stop", "subagentStart", "subagentStop",
	} {
		t.Run(event, func(t *testing.T) {
			if !strings.Contains(told, fmt.Sprintf(`"hook_event_name":%q`, event)) || !strings.Contains(told, `"conversation_id":"`+r.AgentID) {
				t.Error("no hook was told of it")
			}
		})
	}
	t.Run("sessionEnd", func(t *testing.T) { // the hook runs after the push
		if _, after, _ := strings.Cut(events, `"kind":"pushed"`); !strings.Contains(after, `"kind":"hook.ran"`) {
			t.Error("no hook ran after the push")
		}
	})
	show := func(file string) string { return gittest.Git(t, git.Path("hooks"), "show", pushed(t, r)+":"+file) }
	for name, ok := range map[string]bool{
		"UpdatedInput":       show("said.txt") == "after",
		"Deny":               show("kept.txt") == "kept" && strings.Contains(events, "nothing is removed here"),
		"AdditionalContext":  strings.Contains(events, "the house style is tabs"),
		"Followup":           strings.Contains(events, "run the tests, too") && strings.Contains(events, "I went on."),
		"Claude":             strings.Contains(events, "claude-wrote"),
		"FourSources":        strings.Contains(events, "set by team\\nthe house style is tabs\\nset by me"),
		"UpdatedIsValidated": strings.Contains(events, "Shell: the argument command"),
		"ExecDaemonDies":     strings.Contains(told, "ran-again") && strings.Contains(events, "README.md (6 B)") && !strings.Contains(events, "machine.lost"),
		"Transcript":         strings.Contains(show("transcript"), `"content":[{"type":"text","text":"Do it"}]`) && strings.Contains(show("transcript"), `"type":"tool_result"`),
		"Subagent":           show("looked.txt") == "kept" && strings.Contains(events, `"kind":"task.ended"`) && strings.Contains(events, `"definitions":[{"name":"looker"`),
		"Environment":        strings.Contains(show("env"), "dir=/workspace remote=true"),
	} {
		t.Run(name, func(t *testing.T) {
			if !ok {
				t.Error("it did not")
			}
		})
	}
}

// TestHookRefusesAPrompt has a beforeSubmitPrompt hook refuse the prompt.
func TestHookRefusesAPrompt(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("refuses", map[string]string{
		"README.md":         "x\n",
		".aloft/hooks.json": `{"version":1,"hooks":{"beforeSubmitPrompt":[{"command":"grep -q password && echo '{\"continue\":false,\"user_message\":\"no passwords\"}'; true"}]}}`,
	})
	a := start(t, scripted(t, calls("echo ran")))
	r := a.wait(a.create(url, "My password is x", nil))
	events := a.events(r.AgentID)
	if r.Status != "ERROR" || !strings.Contains(events, "prompt_refused") || !strings.Contains(events, "no passwords") || strings.Contains(events, `"turn.replied"`) {
		t.Errorf("the run is %s:\n%s", r.Status, events)
	}
	a.finish(a.create(url, "Nothing secret", nil))
}
