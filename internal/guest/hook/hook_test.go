package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"

	"aloft/internal/hook"
)

// tree writes files to a folder, and returns the sources of hooks in it.
func tree(t *testing.T, files map[string]string) Sources {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"project", "home"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Sources{System: filepath.Join(dir, "etc/hooks.json"), Project: filepath.Join(dir, "project"), Home: filepath.Join(dir, "home")}
}

// file returns a hooks.json with these hooks for an event.
func file(event hook.Event, hooks ...string) string {
	return fmt.Sprintf(`{"version":1,"hooks":{%q:[%s]}}`, event, strings.Join(hooks, ","))
}

func command(line string) string {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	return `{"command":` + string(text) + `}`
}

func session(p Sources) Session {
	return Session{
		ConversationID: "bc-1", GenerationID: "run-1", Model: "house", Version: "v1", Roots: []string{p.Project},
		Email: "me@example.com", Transcript: "/t.jsonl", Dir: p.Project, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + p.Home},
	}
}

func run(t *testing.T, files map[string]string, in hook.Input) hook.Outcome {
	t.Helper()
	p := tree(t, files)
	s := Load(p)
	if len(s.Warnings) > 0 {
		t.Errorf("warnings: %v", s.Warnings)
	}
	return s.Run(context.Background(), session(p), in)
}

// TestExitAndOutput checks the meaning of a hook's exit status and output.
func TestExitAndOutput(t *testing.T) {
	shell := hook.Input{Event: hook.BeforeShellExecution, Subject: "rm x", Fields: map[string]any{"command": "rm x", "cwd": "/w", "sandbox": false}}
	closed := func(line string) string { return strings.Replace(command(line), "{", `{"failClosed":true,`, 1) }
	for _, c := range []struct {
		name string
		hook string
		want hook.Outcome
	}{
		{"Silence", command(`true`), hook.Outcome{}},
		{"Allow", command(`echo '{"permission":"allow"}'`), hook.Outcome{Permission: hook.Allow}},
		{"DenyInWords", command(`echo '{"permission":"deny","user_message":"u","agent_message":"a"}'`), hook.Outcome{Permission: hook.Deny, UserMessage: "u", AgentMessage: "a"}},
		{"Ask", command(`echo '{"permission":"ask"}'`), hook.Outcome{Permission: hook.Ask}},
		{"Exit2", command(`echo no >&2; exit 2`), hook.Outcome{Permission: hook.Deny, AgentMessage: "no"}},
		{"Exit2ClosesItsStdin", command(`exec <&-; echo no >&2; exit 2`), hook.Outcome{Permission: hook.Deny, AgentMessage: "no"}},
		{"OtherExit", command(`echo '{"permission":"deny"}'; exit 1`), hook.Outcome{}},
		{"NotJSON", command(`echo hello`), hook.Outcome{}},
		{"UnknownPermission", command(`echo '{"permission":"perhaps"}'`), hook.Outcome{}},
		{"NotThere", command(`./not-there.sh`), hook.Outcome{}},
		{"FailClosedExit", closed(`exit 1`), hook.Outcome{Permission: hook.Deny, AgentMessage: "a hook with failClosed failed: exit status 1"}},
		{"FailClosedWords", closed(`echo hello`), hook.Outcome{Permission: hook.Deny, AgentMessage: "a hook with failClosed failed: its output is not valid hook JSON: invalid character 'h' looking for beginning of value"}},
		{"FailClosedTime", `{"failClosed":true,"timeout":0.1,"command":"sleep 60"}`, hook.Outcome{Permission: hook.Deny, AgentMessage: "a hook with failClosed failed: it timed out after 100ms"}},
		{"TimeIsUp", `{"timeout":0.1,"command":"sleep 60 & sleep 60"}`, hook.Outcome{}},
		{"Flood", closed(`yes`), hook.Outcome{Permission: hook.Deny, AgentMessage: "a hook with failClosed failed: it printed more than 1048576 bytes"}},
		{"LeavesAProcess", command(`sleep 600 & echo '{"permission":"deny"}'`), hook.Outcome{Permission: hook.Deny}},
		{"Matches", `{"matcher":"^rm ","command":"exit 2"}`, hook.Outcome{Permission: hook.Deny}},
		{"NothingToChange", command(`echo '{"updated_input":{}}'`), hook.Outcome{UpdatedInput: json.RawMessage("{}")}},
		{"DoesNotMatch", `{"matcher":"^ls","command":"exit 2"}`, hook.Outcome{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			got := run(t, map[string]string{"project/.cursor/hooks.json": file(hook.BeforeShellExecution, c.hook)}, shell)
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(hook.Outcome{}, "Ran")); diff != "" {
				t.Error(diff)
			}
			if time.Since(start) > 5*time.Minute {
				t.Error("it waited for a process that the hook left")
			}
		})
	}
}

func TestWhatAHookIsTold(t *testing.T) {
	p := tree(t, map[string]string{"project/.cursor/hooks.json": file(hook.PreToolUse, command(`cat > told; env | grep -E '^(CURSOR|CLAUDE)' | sort > env; pwd > dir`))})
	in := hook.Input{Event: hook.PreToolUse, Subject: "Shell", Fields: map[string]any{"tool_name": "Shell", "tool_input": map[string]any{"command": "ls"}, "tool_use_id": "c1", "cwd": "/w"}}
	Load(p).Run(context.Background(), session(p), in)
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(p.Project, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var told map[string]any
	if err := json.Unmarshal([]byte(read("told")), &told); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"conversation_id": "bc-1", "generation_id": "run-1", "model": "house", "hook_event_name": "preToolUse", "cursor_version": "v1",
		"workspace_roots": []any{p.Project}, "user_email": "me@example.com", "transcript_path": "/t.jsonl",
		"tool_name": "Shell", "tool_input": map[string]any{"command": "ls"}, "tool_use_id": "c1", "cwd": "/w",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	wantEnv := strings.ReplaceAll(`CLAUDE_PROJECT_DIR=DIR
CURSOR_CODE_REMOTE=true
CURSOR_PROJECT_DIR=DIR
CURSOR_TRANSCRIPT_PATH=/t.jsonl
CURSOR_USER_EMAIL=me@example.com
CURSOR_VERSION=v1
`, "=DIR", "="+p.Project)
	if diff := cmp.Diff(wantEnv, read("env")); diff != "" {
		t.Error(diff)
	}
	if got := strings.TrimSpace(read("dir")); got != p.Project {
		t.Errorf("it ran in %s", got)
	}
}

// TestEvents checks, for each event, the input beyond the common fields, the
// text with which matchers are compared, and the output that a hook may return.
func TestEvents(t *testing.T) {
	tool := `"tool_name":"Shell","tool_input":{"command":"ls"},"tool_use_id":"c1","cwd":"/w"`
	for _, c := range []struct {
		name    string // the event's name
		fields  string
		matcher string // a matcher that matches
		other   string // a matcher that does not match; "" for events without a subject
		say     string
		want    hook.Outcome
	}{
		{"preToolUse", tool, "^Shell$", "^Read$", `{"permission":"deny","user_message":"u","agent_message":"a","updated_input":{"command":"ls -l"}}`,
			hook.Outcome{Permission: hook.Deny, UserMessage: "u", AgentMessage: "a", UpdatedInput: json.RawMessage(`{"command":"ls -l"}`)}},
		{"postToolUse", tool + `,"tool_output":"x","duration":3`, "Shell", "MCP:", `{"additional_context":"c","updated_mcp_tool_output":{"y":1}}`,
			hook.Outcome{AdditionalContext: "c", UpdatedMCPOutput: json.RawMessage(`{"y":1}`)}},
		{"postToolUseFailure", tool + `,"error_message":"x","failure_type":"timeout","duration":3`, "Shell", "Read", ``, hook.Outcome{}},
		{"beforeShellExecution", `"command":"rm x","cwd":"/w","sandbox":true`, "^rm ", "Shell", `{"permission":"ask","user_message":"u","agent_message":"a"}`,
			hook.Outcome{Permission: hook.Ask, UserMessage: "u", AgentMessage: "a"}},
		{"afterShellExecution", `"command":"rm x","output":"o","duration":3,"sandbox":false`, "rm", "Shell", ``, hook.Outcome{}},
		{"beforeReadFile", `"file_path":"/w/a","content":"x"`, "", "", `{"permission":"deny","user_message":"u"}`, hook.Outcome{Permission: hook.Deny, UserMessage: "u"}},
		{"afterFileEdit", `"file_path":"/w/a","edits":[{"old_string":"x","new_string":"y"}]`, "", "", ``, hook.Outcome{}},
		{"beforeMCPExecution", `"tool_name":"get","tool_input":{},"url":"https://mcp.example.com"`, "get", "put", `{"permission":"deny"}`, hook.Outcome{Permission: hook.Deny}},
		{"afterMCPExecution", `"tool_name":"get","tool_input":{},"command":"server","result_json":"{}","duration":3`, "get", "put", ``, hook.Outcome{}},
		{"beforeSubmitPrompt", `"prompt":"p","attachments":[]`, "", "", `{"continue":false,"user_message":"u"}`, hook.Outcome{Stopped: true, UserMessage: "u"}},
		{"preCompact", `"trigger":"auto","context_usage_percent":85,"context_tokens":1000,"message_count":3`, "", "", `{"user_message":"u"}`, hook.Outcome{UserMessage: "u"}},
		{"subagentStart", `"subagent_id":"s","subagent_type":"explore","task":"t","parent_conversation_id":"bc-1"`, "explore", "shell", `{"permission":"deny","user_message":"u"}`,
			hook.Outcome{Permission: hook.Deny, UserMessage: "u"}},
		{"subagentStop", `"subagent_type":"explore","status":"completed","summary":"s","duration_ms":3,"modified_files":[]`, "explore", "shell", `{"followup_message":"f"}`,
			hook.Outcome{FollowupMessage: "f"}},
		{"afterAgentResponse", `"text":"t"`, "", "", ``, hook.Outcome{}},
		{"afterAgentThought", `"text":"t"`, "", "", ``, hook.Outcome{}},
		{"stop", `"status":"completed","loop_count":0`, "", "", `{"followup_message":"f"}`, hook.Outcome{FollowupMessage: "f"}},
		{"sessionStart", `"session_id":"s","is_background_agent":true`, "", "", `{"env":{"A":"b"},"additional_context":"c"}`,
			hook.Outcome{Env: map[string]string{"A": "b"}, AdditionalContext: "c"}},
		{"sessionEnd", `"session_id":"s","reason":"completed","duration_ms":3`, "", "", ``, hook.Outcome{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			event := hook.Event(c.name)
			var fields map[string]any
			if err := json.Unmarshal([]byte("{"+c.fields+"}"), &fields); err != nil {
				t.Fatal(err)
			}
			said, err := json.Marshal("cat > told; cat say")
			if err != nil {
				t.Fatal(err)
			}
			p := tree(t, map[string]string{
				"project/say":                c.say,
				"project/.cursor/hooks.json": file(event, `{"matcher":"`+c.matcher+`","command":`+string(said)+`}`, `{"matcher":"^no such$","command":"touch not-this"}`),
			})
			if c.other != "" {
				p.User = []byte(file(event, `{"matcher":"`+c.other+`","command":"touch not-this"}`))
			}
			got := Load(p).Run(t.Context(), session(p), hook.Input{Event: event, Subject: Subject(event, fields), Fields: fields})
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(hook.Outcome{}, "Ran")); diff != "" {
				t.Error(diff)
			}
			if _, err := os.Stat(filepath.Join(p.Project, "not-this")); err == nil && c.other != "" {
				t.Error("a hook ran whose matcher does not fit")
			}
			var told map[string]any
			data, err := os.ReadFile(filepath.Join(p.Project, "told"))
			if err == nil {
				err = json.Unmarshal(data, &told)
			}
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{
				"conversation_id": "bc-1", "generation_id": "run-1", "model": "house", "hook_event_name": c.name, "cursor_version": "v1",
				"workspace_roots": []any{p.Project}, "user_email": "me@example.com", "transcript_path": "/t.jsonl",
			}
			maps.Copy(want, fields)
			if diff := cmp.Diff(want, told); diff != "" {
				t.Error(diff)
			}
		})
	}
	if len(hook.Events) != 18 {
		t.Errorf("there are %d events; the table has 18", len(hook.Events))
	}
}

// TestSourcesAndOrder checks that hooks of all sources run until one denies, in
// order of precedence, each with the input that the previous hook has left.
func TestSourcesAndOrder(t *testing.T) {
	say := func(who string) string {
		return command(`echo '{"additional_context":"` + who + `"}'`)
	}
	got := run(t, map[string]string{
		"etc/hooks.json":                file(hook.PreToolUse, say("system"), command(`echo '{"updated_input":{"n":1}}'`)),
		"project/.aloft/hooks.json":     file(hook.PreToolUse, say("project"), command(`grep -q '"tool_input":{"n":1}' && echo '{"updated_input":{"n":2},"permission":"allow"}'`)),
		"project/.cursor/hooks.json":    file(hook.PreToolUse, say("shadowed")),
		"project/.claude/settings.json": `{"model":"x","hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"echo '{\"hookSpecificOutput\":{\"additionalContext\":\"claude\"}}'"}]}]}}`,
		"home/.cursor/hooks.json":       file(hook.PreToolUse, say("home"), command(`exit 2`), say("never")),
	}, hook.Input{Event: hook.PreToolUse, Subject: "Shell", Fields: map[string]any{"tool_name": "Shell", "tool_input": map[string]any{"n": 0}}})
	if want := "system\nproject\nclaude\nhome"; got.AdditionalContext != want {
		t.Errorf("they said %q, want %q", got.AdditionalContext, want)
	}
	if string(got.UpdatedInput) != `{"n":2}` || got.Permission != hook.Deny {
		t.Errorf("got %s, %s", got.UpdatedInput, got.Permission)
	}
}

// TestManyAtOnce checks that no denial is lost when many hooks start and end at
// the same time: hooks that never read their input, that close it, that leave a
// process behind, or whose files are written while others start. With
// ALOFT_TEST_SOAK it runs longer.
func TestManyAtOnce(t *testing.T) {
	rounds := 8
	if os.Getenv("ALOFT_TEST_SOAK") != "" { // "make soak" sets this variable
		rounds = 400
	}
	big := strings.Repeat("x", 1<<18) // more than the buffer of a pipe
	in := hook.Input{Event: hook.PreToolUse, Subject: "Shell", Fields: map[string]any{"tool_name": "Shell", "tool_input": map[string]any{"command": big}}}
	var group errgroup.Group
	group.SetLimit(16)
	for range rounds {
		for _, line := range []string{
			"exit 2", "exec <&-; exit 2", "sleep 60 & exit 2", "head -c 10 >/dev/null; exit 2", "cat >/dev/null; exit 2",
			"printf 'exit 2' > s.sh; chmod +x s.sh; sh ./s.sh", `echo '{"permission":"deny"}'`, `exec <&-; echo '{"permission":"deny"}'`,
		} {
			p := tree(t, map[string]string{"project/.cursor/hooks.json": file(hook.PreToolUse, command(line))})
			group.Go(func() error {
				if got := Load(p).Run(t.Context(), session(p), in); got.Permission != hook.Deny {
					return fmt.Errorf("%s: %+v", line, got)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func TestATeamsHooks(t *testing.T) {
	p := tree(t, nil)
	p.Team = []byte(file(hook.Stop, command(`echo '{"followup_message":"test it"}'`)))
	s := Load(p)
	for count, want := range map[int]string{0: "test it", 4: "test it", 5: "", 9: ""} {
		of := session(p)
		of.LoopCount = count
		if got := s.Run(context.Background(), of, hook.Input{Event: hook.Stop}).FollowupMessage; got != want {
			t.Errorf("after %d: %q, want %q", count, got, want)
		}
	}
}

// TestClaude checks the hooks in .claude/settings.json.
func TestClaude(t *testing.T) {
	settings := func(event, line string) map[string]string {
		return map[string]string{"home/.claude/settings.json": fmt.Sprintf(`{"hooks":{%q:[{"hooks":[%s]}]}}`, event, command(line))}
	}
	tool := hook.Input{Event: hook.PreToolUse, Subject: "Shell", Fields: map[string]any{"tool_name": "Shell", "tool_input": map[string]any{}}}
	for _, c := range []struct {
		name, event, line string
		in                hook.Input
		want              hook.Outcome
	}{
		{"Block", "PreToolUse", `echo '{"decision":"block","reason":"no"}'`, tool, hook.Outcome{Permission: hook.Deny, AgentMessage: "no"}},
		{"Decision", "PreToolUse", `echo '{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"hm","updatedInput":{"a":1}}}'`, tool,
			hook.Outcome{Permission: hook.Ask, AgentMessage: "hm", UpdatedInput: json.RawMessage(`{"a":1}`)}},
		{"ToldByItsNames", "PreToolUse", `grep -q '"tool_name":"Bash"' && exit 2`, tool, hook.Outcome{Permission: hook.Deny}},
		{"EventByItsName", "PreToolUse", `grep -q '"hook_event_name":"PreToolUse"' && exit 2`, tool, hook.Outcome{Permission: hook.Deny}},
		{"StopGoesOn", "Stop", `echo '{"decision":"block","reason":"more"}'`, hook.Input{Event: hook.Stop}, hook.Outcome{FollowupMessage: "more"}},
		{"PromptRefused", "UserPromptSubmit", `echo '{"decision":"block","reason":"no"}'`, hook.Input{Event: hook.BeforeSubmitPrompt}, hook.Outcome{Stopped: true, UserMessage: "no"}},
		{"WordsForTheModel", "SessionStart", `echo be kind`, hook.Input{Event: hook.SessionStart}, hook.Outcome{AdditionalContext: "be kind"}},
		{"WordsForNobody", "PreToolUse", `echo be kind`, tool, hook.Outcome{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, settings(c.event, c.line), c.in)
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(hook.Outcome{}, "Ran")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	for text, word := range map[string]string{
		`{`: "hooks.json", `{"version":2}`: "version 2", `{"hooks":{"onMoon":[]}}`: "onMoon", `{"hooks":{"stop":[{}]}}`: "no command",
		`{"hooks":{"stop":[{"command":1}]}}`: "stop[0]", `{"hooks":{"stop":[{"type":"prompt","command":"x"}]}}`: `"prompt"`,
		`{"hooks":{"stop":[{"command":"x","matcher":"(?=y)"}]}}`: "matcher", `[]`: "hooks.json",
		strings.Repeat(" ", maxFile+1): "longer", strings.Repeat("[", maxFile): "nested",
	} {
		s := Load(tree(t, map[string]string{"project/.cursor/hooks.json": text}))
		if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], word) {
			t.Errorf("%.60s: the warnings %q do not name %q", text, s.Warnings, word)
		}
	}
	if !Load(tree(t, map[string]string{"project/.cursor/hooks.json": `{"hooks":{"stop":[{"command":"x","matcher":"(?=y)"}]}}`})).Has(hook.Stop) {
		t.Error("a hook is lost because its matcher is not understood")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(file(hook.Stop, command("x"))), true)
	f.Add([]byte(`{"hooks":{"PreToolUse":[{"matcher":"a","hooks":[{"command":"x"}]}]}}`), false)
	f.Fuzz(func(t *testing.T, data []byte, ours bool) {
		s := &Set{hooks: map[hook.Event][]Hook{}}
		if ours {
			s.add("f", data)
		} else {
			s.addClaude("f", data)
		}
		for event, hooks := range s.hooks {
			for _, h := range hooks {
				if h.Command == "" || h.Timeout <= 0 || h.Timeout > maxTimeout {
					t.Errorf("%s: %+v", event, h)
				}
			}
		}
	})
}
