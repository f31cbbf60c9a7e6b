package review

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/conversation"
	"aloft/internal/policy"
	"aloft/internal/policy/permit"
	"aloft/internal/policy/sandbox"
	"aloft/internal/tool"
)

func call(name, args string) conversation.ToolCall {
	return conversation.ToolCall{ID: "c1", Name: name, Args: json.RawMessage(args)}
}

// TestDescribe checks how each tool is described to the run modes.
func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		name, args string
		kind       permit.Kind
		subject    string
	}{
		{"Shell", `{"command":"ls -l","description":"look"}`, permit.Shell, "ls -l"},
		{"WriteShellStdin", `{"pid":7,"chars":"y"}`, permit.Shell, `input of a running command: {"pid":7,"chars":"y"}`},
		{"ReadLints", `{}`, permit.Shell, "run the project's linters"},
		{"SetupVmEnvironment", `{"update_script":"npm ci"}`, permit.Shell, "install script for later machines: npm ci"},
		{"ComputerUse", `{"actions":[{"click":{"coordinate":{"x":1,"y":2}}},{"screenshot":{}}]}`, permit.Desktop, `on the desktop: click {"coordinate":{"x":1,"y":2}}; screenshot`},
		{"ComputerUse", `{"actions":[{"wait":{"duration_ms":5}},{"screenshot":{}},{"cursorPosition":{}}]}`, permit.Other, ""},
		{"ComputerUse", `{"actions":[{"screenshot":{},"key":{"key":"ctrl+w"}}]}`, permit.Desktop, `on the desktop: key {"key":"ctrl+w"}; screenshot`},
		{"ComputerUse", `{"actions":7}`, permit.Desktop, "on the desktop: "},
		{"Fetch", `{"url":"https://Example.com/x"}`, permit.Fetch, "https://Example.com/x"},
		{"WebFetch", `{"url":"https://example.com"}`, permit.Fetch, "https://example.com"},
		{"WebSearch", `{"search_term":"go synctest"}`, permit.Fetch, "search the web: go synctest"},
		{"GenerateImage", `{"description":"a kite"}`, permit.Fetch, "generate an image"},
		{"GenerateImage", `{"description":"a kite","file_path":"a.png","reference_image_paths":["b.png","c.png"]}`, permit.Fetch, "generate an image a.png from b.png, c.png"},
		{"GenerateImage", `{"description":"a kite","file_path":".git/hooks/a.png"}`, permit.Protected, "generate an image .git/hooks/a.png"},
		{"CallMcpTool", `{"server":"github","tool_name":"get_issue"}`, permit.MCP, "github:get_issue"},
		{"CallMcpTool", `{"server":"github","tool_name":"get_issue","arguments":{"id":7}}`, permit.MCP, `github:get_issue {"id":7}`},
		{"CallMcpTool", `{"server":"github"}`, permit.Other, ""},
		{"ListMcpResources", `{}`, permit.Other, ""},
		{"McpAuth", `{"server":"github"}`, permit.Other, ""},
		{"FetchMcpResource", `{"server":"github","uri":"issue://7"}`, permit.MCP, "github:FetchMcpResource issue://7"},
		{"FetchMcpResource", `{"server":"github","uri":"issue://7","downloadPath":".cursor/mcp.json"}`, permit.Config, "write what github gives to .cursor/mcp.json"},
		{"Write", `{"path":".cursor/mcp.json"}`, permit.Config, "write .cursor/mcp.json"},
		{"Read", `{"path":"/workspace/.cursor/permissions.json"}`, permit.Other, ""},
		{"Write", `{"path":"/workspace/a.go"}`, permit.Other, ""},
		{"Write", `{"path":"/workspace/.cursor/permissions.json"}`, permit.Config, "write /workspace/.cursor/permissions.json"},
		{"Write", `{"path":".CURSOR/../.Cursor//Permissions.json"}`, permit.Config, "write .CURSOR/../.Cursor//Permissions.json"},
		{"Write", `{"path":".cursor/plugins/x/hooks/run.sh"}`, permit.Config, "write .cursor/plugins/x/hooks/run.sh"},
		{"StrReplace", `{"path":"sub/.aloft/hooks.json"}`, permit.Config, "strreplace sub/.aloft/hooks.json"},
		{"Delete", `{"path":"/workspace/.cursorignore"}`, permit.Config, "delete /workspace/.cursorignore"},
		{"Write", `{"path":".claude/settings.local.json"}`, permit.Config, "write .claude/settings.local.json"},
		{"Write", `{"path":".cursor/rules/style.mdc"}`, permit.Other, ""},
		{"Write", `{"path":"/tmp/notes"}`, permit.Other, ""},
		{"Write", `{"path":"/opt/cursor/artifacts/report.md"}`, permit.Other, ""},
		{"Write", `{"path":""}`, permit.Other, ""},
		{"Write", `{"path":".git/config"}`, permit.Protected, "write .git/config"},
		{"Write", `{"path":"/home/ubuntu/.bashrc"}`, permit.Protected, "write /home/ubuntu/.bashrc"},
		{"Write", `{"path":"../etc/profile"}`, permit.Protected, "write ../etc/profile"},
		{"StrReplace", `{"path":"sub/.GIT/config"}`, permit.Protected, "strreplace sub/.GIT/config"},
		{"Delete", `{"path":".git/hooks/pre-push"}`, permit.Protected, "delete .git/hooks/pre-push"},
		{"Delete", `{"path":"a.go"}`, permit.Other, ""},
		{"EditNotebook", `{"target_notebook":"/home/ubuntu/a.ipynb"}`, permit.Protected, "editnotebook /home/ubuntu/a.ipynb"},
		{"EditNotebook", `{"target_notebook":"a.ipynb"}`, permit.Other, ""},
		{"FetchMcpResource", `{"server":"github","uri":"issue://7","downloadPath":".git/config"}`, permit.Protected, "write what github gives to .git/config"},
		{"FetchMcpResource", `{"server":"github","uri":"issue://7","downloadPath":"notes.txt"}`, permit.MCP, "github:FetchMcpResource issue://7"},
		{"TodoWrite", `{}`, permit.Other, ""},
		{"Grep", `not json`, permit.Other, ""},
	} {
		d := describe(call(c.name, c.args))
		if d.Kind != c.kind || d.subject != c.subject {
			t.Errorf("%s %s: kind %v, subject %q", c.name, c.args, d.Kind, d.subject)
		}
	}
}

// TestGuards tests which calls the machine must check again.
func TestGuards(t *testing.T) {
	for mode, want := range map[permit.Mode]bool{permit.AutoReview: true, permit.Allowlist: true, permit.RunEverything: false} {
		r := newRig(t, "")
		r.Mode = mode
		for _, name := range []string{"Write", "StrReplace", "EditNotebook", "Delete", "GenerateImage", "ApplyAgentDiff", "FetchMcpResource", "Shell", "Read"} {
			got, err := r.Guards(t.Context(), r.state.Agent, call(name, `{}`))
			if file := name != "Shell" && name != "Read"; err != nil || got != (want && file) {
				t.Errorf("%s under %s: %v, %v", name, mode, got, err)
			}
		}
	}
}

// TestMCPGrants checks that a call can be allowed only once if a rule would
// interpret its name as a pattern.
func TestMCPGrants(t *testing.T) {
	for args, want := range map[string]string{
		`{"server":"github","tool_name":"get_issue","arguments":{"id":7}}`: "github:get_issue",
		`{"server":"github","tool_name":"*"}`:                              "",
		`{"server":"git*","tool_name":"get"}`:                              "",
		`{"server":"a","tool_name":"b:c"}`:                                 "",
		`{"server":"","tool_name":"b"}`:                                    "",
	} {
		if got := describe(call("CallMcpTool", args)).grant; got != want {
			t.Errorf("%s grants %q, want %q", args, got, want)
		}
	}
}

// TestChange tests how a change to rules is shown to a person.
func TestChange(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for args, want := range map[string]string{
		`Write {"path":".cursor/permissions.json","contents":"{\n}\n"}`:                                 "{\n}\n",
		`StrReplace {"path":".cursor/hooks.json","old_string":"a\nb","new_string":"c","contents":"no"}`: "- a\n- b\n+ c\n",
		`Delete {"path":".cursorignore"}`:                                                               "",
		`Write {"path":"a.go","contents":"package a"}`:                                                  "",
		`Write {"path":".aloft/permissions.json","contents":"` + long + `"}`:                            long,
		`PrManagement {"action":"PR_ACTION_CREATE","title":"Sort slugs","body":"Why.\n\nHow."}`:         "Why.\n\nHow.",
	} {
		name, args, _ := strings.Cut(args, " ")
		if got := describe(call(name, args)).change; got != want {
			t.Errorf("%s %.60s: %q", name, args, got)
		}
	}
}

// TestWhatAPersonIsShown checks that a request is either shown completely or
// not reviewable.
func TestWhatAPersonIsShown(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for args, want := range map[string]string{
		`CallMcpTool {"server":"db","tool_name":"query","arguments":{"sql":"` + long + `"}}`:                                                     `db:query {"sql":"` + long + `"}`,
		`ComputerUse {"actions":[{"type":{"text":"` + long + `"}},{"key":{"key":"Return"}}]}`:                                                    `on the desktop: type {"text":"` + long + `"}; key {"key":"Return"}`,
		`PrManagement {"action":"PR_ACTION_CREATE","title":"Sort slugs","base_branch":"release","repo_url":"https://git.test/a/b","draft":true}`: "pull request: Sort slugs\ninto release\nat https://git.test/a/b\nas a draft",
		`PrManagement {"action":"PR_ACTION_UPDATE","title":"Sort slugs"}`:                                                                        "update the pull request: Sort slugs",
		`PrManagement {"action":"PR_ACTION_COMMENT","body":"Done."}`:                                                                             "comment on the pull request",
		`PrManagement {"action":"PR_ACTION_REPLY","thread_id":"T1","body":"Done."}`:                                                              "reply to the review thread T1",
		`PrManagement {"action":"PR_ACTION_RESOLVE","thread_id":"T1"}`:                                                                           "resolve the review thread T1",
	} {
		name, args, _ := strings.Cut(args, " ")
		if got := describe(call(name, args)); got.subject != want || !got.reviewable() {
			t.Errorf("%s %.60s: %.200q, reviewable %v", name, args, got.subject, got.reviewable())
		}
	}
	if d := describe(call("Shell", `{"command":"rm -rf *","working_directory":"/srv"}`)); d.folder != "/srv" || d.subject != "rm -rf *" {
		t.Errorf("a line in a folder: %+v", d)
	}
	over := strings.Repeat("x", maxReviewed+1)
	for _, args := range []string{
		`Shell {"command":"` + over + `"}`, `CallMcpTool {"server":"a","tool_name":"b","arguments":"` + over + `"}`,
		`Write {"path":".git/config","contents":"` + over + `"}`, `PrManagement {"title":"a","body":"` + over + `"}`,
	} {
		name, args, _ := strings.Cut(args, " ")
		if d := describe(call(name, args)); d.reviewable() {
			t.Errorf("%s of %d bytes is put to a person", name, len(args))
		}
	}
}

// TestReadingAPullRequest checks that only PrManagement's read actions need no
// review.
func TestReadingAPullRequest(t *testing.T) {
	var schema struct {
		Properties struct{ Action struct{ Enum []string } }
	}
	spec, _ := tool.Lookup("PrManagement")
	if err := json.Unmarshal(spec.Schema, &schema); err != nil || len(schema.Properties.Action.Enum) < 12 {
		t.Fatalf("%+v, %v", schema, err)
	}
	writes := []string{"PR_ACTION_UNSPECIFIED", "PR_ACTION_CREATE", "PR_ACTION_UPDATE", "PR_ACTION_COMMENT", "PR_ACTION_REPLY", "PR_ACTION_RESOLVE"}
	for _, action := range append(schema.Properties.Action.Enum, "PR_ACTION_UNSPECIFIED") {
		free := describe(call("PrManagement", `{"action":"`+action+`"}`)).Kind == permit.Other
		if free == slices.Contains(writes, action) {
			t.Errorf("%s is free: %v", action, free)
		}
	}
}

// TestUntil checks that the shortest timeout applies.
func TestUntil(t *testing.T) {
	for _, c := range []struct {
		name, team, own string
		operator, want  time.Duration
	}{
		{"Nobody", "", "", 0, 0},
		{"Operator", "", "", time.Hour, time.Hour},
		{"Team", "8h", "", 0, 8 * time.Hour},
		{"TeamIsShorter", "30m", "", time.Hour, 30 * time.Minute},
		{"TeamIsLonger", "48h", "", time.Hour, time.Hour},
		{"Own", "8h", "1h", 0, time.Hour},
		{"OwnIsLonger", "8h", "24h", 0, 8 * time.Hour},
		{"Nonsense", "soon", "-1h", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "")
			r.DenyAfter = c.operator
			r.set(t, store.TeamRules, denyAfterFile, c.team)
			r.set(t, store.RulesOf(7), denyAfterFile, c.own)
			before := time.Now()
			got, err := r.Until(t.Context(), r.state.Agent)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == 0 {
				if !got.IsZero() {
					t.Errorf("it counts as denied at %s", got)
				}
				return
			}
			if got.Before(before.Add(c.want)) || got.After(time.Now().Add(c.want)) {
				t.Errorf("it counts as denied at %s, want %s from now", got, c.want)
			}
		})
	}
}

// rig is a reviewer with a real store and the files of a project.
type rig struct {
	*Reviewer
	store   *sqlite.Store
	project map[string]string // file content by path, or by commit:path
	state   *agent.State
}

func newRig(t *testing.T, mode permit.Mode) *rig {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := &rig{store: s, project: map[string]string{}, state: &agent.State{Agent: agent.Agent{Source: agent.Source{Origin: "c0ffee", RulesAt: "c0ffee"}, UserID: 7, Options: agent.Options{Repos: []agent.Repo{{URL: "https://git.example.com/r"}}}}}}
	r.Reviewer = New(Config{Rules: s, Mode: mode, Project: func(_ context.Context, _ agent.Agent, commit, path string) ([]byte, error) {
		for _, name := range []string{commit + ":" + path, path} {
			if text, ok := r.project[name]; ok {
				return []byte(text), nil
			}
		}
		return nil, nil
	}})
	return r
}

func (r *rig) set(t *testing.T, owner, name, text string) {
	t.Helper()
	if err := r.store.SetRule(t.Context(), owner, name, text); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) check(t *testing.T, c conversation.ToolCall) Verdict {
	t.Helper()
	v, err := r.Check(t.Context(), r.state, c, false)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMode tests whose run mode applies.
func TestMode(t *testing.T) {
	for _, c := range []struct {
		name                        string
		operator, team, agent, user permit.Mode
		want                        permit.Treatment // for a command line on no list
	}{
		{"Nobody", "", "", "", "", permit.Run},
		{"User", "", "", "", permit.Allowlist, permit.Ask},
		{"AgentOverUser", "", "", permit.RunEverything, permit.Allowlist, permit.Run},
		{"TeamOverAgent", "", permit.Allowlist, permit.RunEverything, "", permit.Ask},
		{"AgentMayBeStricterThanTheTeam", "", permit.RunEverything, permit.Allowlist, "", permit.Ask},
		{"OperatorOverAll", permit.Allowlist, permit.RunEverything, permit.RunEverything, permit.RunEverything, permit.Ask},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.operator)
			r.set(t, store.TeamRules, modeFile, string(c.team))
			r.set(t, store.RulesOf(7), modeFile, string(c.user))
			r.state.Agent.RunMode = string(c.agent)
			if got := r.check(t, call("Shell", `{"command":"rm x"}`)); got.Treatment != c.want {
				t.Errorf("got %+v, want %s", got.Decision, c.want)
			}
		})
	}
}

func TestPermissionsOfPersonAndProjectAreJoined(t *testing.T) {
	r := newRig(t, permit.Allowlist)
	r.set(t, store.RulesOf(7), permissionsFile, `{"terminalAllowlist":["make"]}`)
	r.project[".cursor/permissions.json"] = `{"terminalAllowlist":["ls"]}`
	for line, want := range map[string]permit.Treatment{"make": permit.Run, "ls": permit.Run, "make && ls": permit.Run, "rm x": permit.Ask} {
		if got := r.check(t, call("Shell", `{"command":"`+line+`"}`)); got.Treatment != want {
			t.Errorf("%s: %+v", line, got.Decision)
		}
	}
	r.project[".aloft/permissions.json"] = `{"terminalAllowlist":["wc"]}` // takes precedence over the other folder
	if got := r.check(t, call("Shell", `{"command":"ls"}`)); got.Treatment != permit.Ask {
		t.Errorf("ls: %+v", got.Decision)
	}
	r.set(t, store.TeamRules, permissionsFile, `{"terminalAllowlist":["id"]}`) // the team's rules replace all others
	for line, want := range map[string]permit.Treatment{"id": permit.Run, "make": permit.Ask, "wc": permit.Ask} {
		if got := r.check(t, call("Shell", `{"command":"`+line+`"}`)); got.Treatment != want {
			t.Errorf("%s: %+v", line, got.Decision)
		}
	}
}

// TestInstructionsReachTheClassifier checks that the classifier gets the
// instructions of the user, the project and a branch, or only the team's if
// there are any. A branch's instructions can only block.
func TestInstructionsReachTheClassifier(t *testing.T) {
	m := &listener{}
	r := newRig(t, permit.AutoReview)
	r.Model = func(context.Context, agent.Agent) (model.Model, model.Info, error) { return m, model.Info{}, nil }
	r.state.Agent.RulesAt = "feed"
	r.set(t, store.RulesOf(7), permissionsFile, `{"autoRun":{"allow_instructions":["mine"],"block_instructions":["not mine"]}}`)
	r.project["feed:.aloft/permissions.json"] = `{"autoRun":{"allow_instructions":["ours"],"block_instructions":["not ours"]}}`
	r.project["c0ffee:.aloft/permissions.json"] = `{"autoRun":{"allow_instructions":["the branch's"],"block_instructions":["not the branch's"]}}`
	told := func() (q question) {
		r.Classify(t.Context(), r.state, call("WebFetch", `{"url":"https://example.com"}`), Verdict{})
		if err := json.Unmarshal([]byte(m.last.Messages[0].PlainText()), &q); err != nil {
			t.Fatal(err)
		}
		return q
	}
	q := told()
	if diff := cmp.Diff([][]string{{"mine", "ours"}, {"not mine", "not ours", "not the branch's"}}, [][]string{q.Allow, q.Block}); diff != "" {
		t.Error(diff)
	}
	r.set(t, store.TeamRules, permissionsFile, `{"autoRun":{"block_instructions":["the team's"]}}`)
	q = told()
	if diff := cmp.Diff([][]string{{}, {"the team's"}}, [][]string{q.Allow, q.Block}); diff != "" {
		t.Error(diff)
	}
}

// listener is a model that records its last request.
type listener struct{ last model.Request }

func (l *listener) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	l.last = req
	return func(yield func(model.Event, error) bool) {
		yield(model.Event{Done: &model.Reply{Message: conversation.Text(conversation.Assistant, `{"verdict":"ask"}`)}}, nil)
	}
}

// TestNoProjectWithoutADefaultBranch checks that the project's rules allow
// nothing while the agent's starting commit is unknown, or if there is no
// default branch.
func TestNoProjectWithoutADefaultBranch(t *testing.T) {
	r := newRig(t, permit.Allowlist)
	r.project[".cursor/permissions.json"] = `{"terminalAllowlist":["ls"]}`
	r.state.Agent.RulesAt = ""
	if got := r.check(t, call("Shell", `{"command":"ls"}`)); got.Treatment != permit.Ask {
		t.Errorf("got %+v", got.Decision)
	}
}

// TestABranchCanOnlyNarrow checks that the rules on a branch can block but not
// allow, because an agent may have pushed them.
func TestABranchCanOnlyNarrow(t *testing.T) {
	r := newRig(t, permit.Allowlist)
	r.state.Agent.RulesAt = "feed"
	r.project["feed:.cursor/permissions.json"] = `{"terminalAllowlist":["make"],"autoRun":{"block_instructions":["No AWS."]}}`
	r.project["c0ffee:.aloft/permissions.json"] = `{"terminalAllowlist":["rm"],"mcpAllowlist":["*:*"],"autoRun":{"allow_instructions":["Anything goes."],"block_instructions":["No Azure."]}}`
	for line, want := range map[string]permit.Treatment{"make": permit.Run, "rm x": permit.Ask} {
		if got := r.check(t, call("Shell", `{"command":"`+line+`"}`)); got.Treatment != want {
			t.Errorf("%s: %+v", line, got.Decision)
		}
	}
	p, err := r.permissions(t.Context(), r.state.Agent)
	if err != nil {
		t.Fatal(err)
	}
	want := permit.Permissions{TerminalAllowlist: []string{"make"}, BlockInstructions: []string{"No AWS.", "No Azure."}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	r.project["c0ffee:.aloft/sandbox.json"] = `{"type":"insecure_none","networkPolicy":{"default":"allow"}}`
	if p, err := r.SandboxPolicy(t.Context(), r.state.Agent); err != nil || p.Type != sandbox.ReadWrite || p.Network.Mode == policy.AllowAll {
		t.Errorf("the sandbox is %+v: %v", p, err)
	}
	r.project["c0ffee:.aloft/permissions.json"] = `{` // the branch's deny rules are unknown
	if got := r.check(t, call("Shell", `{"command":"make"}`)); got.Treatment != permit.Ask || !strings.Contains(got.Why, "c0ffee") {
		t.Errorf("got %+v", got.Decision)
	}
}

func TestAFileThatCannotBeReadHasEverythingAsked(t *testing.T) {
	r := newRig(t, permit.AutoReview)
	r.set(t, store.RulesOf(7), permissionsFile, `{"terminalAllowlist":["ls"]}`)
	r.project[".cursor/permissions.json"] = `{"autoRun":`
	got := r.check(t, call("Shell", `{"command":"ls"}`))
	if got.Treatment != permit.Ask || !strings.Contains(got.Why, ".cursor/permissions.json") {
		t.Errorf("got %+v", got)
	}
}

// TestEntries checks which entries a person can allow permanently.
func TestEntries(t *testing.T) {
	for line, want := range map[string][]string{
		"npm test":                {"npm test"},
		"ls && npm test":          {"npm test"},
		"npm test && npm ci":      {"npm test", "npm ci"},
		"npm test && npm test":    {"npm test"},
		"echo $(whoami)":          nil, // always asked, because the result of the substitution is unknown
		"eval x":                  nil,
		"npm test > out":          nil,
		"PATH=/x npm test":        nil,
		"timeout 5 npm test":      {"npm test"},
		"find . -exec wc -l {} +": {"wc -l {}"},
	} {
		if line == "find . -exec wc -l {} +" {
			want = nil
		}
		d := describe(call("Shell", `{"command":`+quote(line)+`}`))
		if diff := cmp.Diff(want, d.entries(permit.Permissions{TerminalAllowlist: []string{"ls"}})); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// TestGrants checks that a grant applies to calls like the one that the person
// saw.
func TestGrants(t *testing.T) {
	r := newRig(t, permit.Allowlist)
	r.state.Granted = []agent.Grant{{Tool: "Shell", Entry: "npm test"}, {Tool: "WebFetch", Entry: "example.com"}}
	for c, want := range map[string]permit.Treatment{
		`Shell {"command":"npm test"}`:                                 permit.Run,
		`Shell {"command":"npm test; rm x"}`:                           permit.Ask,
		`Shell {"command":"npm test","required_permissions":["all"]}`:  permit.Run,
		`Shell {"command":"npm test2","required_permissions":["all"]}`: permit.Ask,
		`WebFetch {"url":"https://EXAMPLE.com/y"}`:                     permit.Run,
		`WebFetch {"url":"https://example.com.evil/y"}`:                permit.Ask,
		`Fetch {"url":"https://example.com/y"}`:                        permit.Ask,
	} {
		name, args, _ := strings.Cut(c, " ")
		if got := r.check(t, call(name, args)); got.Treatment != want {
			t.Errorf("%s: %+v", c, got.Decision)
		}
	}
}

func FuzzReadVerdict(f *testing.F) {
	for _, s := range []string{`{"verdict":"allow","reason":"x"}`, "```json\n{\"verdict\":\"block\"}\n```", `{"verdict":"ask"}`, "allow"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		verdict, reason, err := readVerdict(text)
		if (verdict == "") == (err == nil) || len(reason) > maxReason+8 {
			t.Errorf("%q: %q, %d bytes, %v", text, verdict, len(reason), err)
		}
		if verdict == VerdictAllow && !strings.Contains(text, "allow") && !strings.Contains(text, `\u`) {
			t.Errorf("%q is taken for allow", text)
		}
	})
}
