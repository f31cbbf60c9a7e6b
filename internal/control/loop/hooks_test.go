package loop_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/hook"
	"aloft/internal/policy/permit"
	"aloft/internal/tool"
)

// transcriptProgress collects the hook events that the machine gets, in order.
type transcriptProgress []hook.Input

// listen installs hooks for every event in the machine. They do nothing.
func (r *rig) listen() *transcriptProgress {
	all := &transcriptProgress{}
	r.machine.hooks = func(call hook.Call) hook.Outcome {
		out := hook.Outcome{}
		for _, e := range call.Events {
			*all = append(*all, e)
		}
		out.Present = append(out.Present,
			"preToolUse", "postToolUse", "postToolUseFailure", "beforeShellExecution", "afterShellExecution", "beforeReadFile", "afterFileEdit",
			"beforeSubmitPrompt", "preCompact", "afterAgentResponse", "afterAgentThought", "stop", "sessionStart", "sessionEnd",
		)
		return out
	}
	return all
}

// fields returns the fields of the first event with the given name as JSON, and
// replaces values that vary between runs by constants.
func (all transcriptProgress) fields(t *testing.T, name string) string {
	t.Helper()
	i := slices.IndexFunc(all, func(e hook.Input) bool { return string(e.Event) == name })
	if i < 0 {
		t.Fatalf("no hook is told of %s: %+v", name, all)
	}
	data, err := json.Marshal(all[i].Fields)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for key, same := range map[string]any{"tool_use_id": "ID", "session_id": "AGENT", "duration_ms": 0} {
		if _, ok := fields[key]; ok {
			fields[key] = same
		}
	}
	data, err = json.Marshal(fields) // Marshal sorts the keys
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestHookEvents checks the fields that hooks get for each event, besides the
// common ones, and the text that their matchers are compared with.
func TestHookEvents(t *testing.T) {
	done := []step{say("done")}
	failing := func(text string, why tool.Failure) func(*rig) {
		return func(r *rig) {
			r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
				failed := tool.Failed("%s", text)
				failed.Why = why
				return failed, nil
			}
		}
	}
	long := strings.Repeat("word ", 2000)
	for _, c := range []struct {
		name  string // the event, optionally followed by a slash and the case
		setup func(*rig)
		steps []step
		want  string
	}{
		{"preToolUse", nil, []step{use(`Shell {"command":"ls"}`)}, `{"cwd":"/workspace","tool_input":{"command":"ls"},"tool_name":"Shell","tool_use_id":"ID"}`},
		{"preToolUse/NamesOfTools", nil, []step{use(`StrReplace {"path":"a"}`)}, `{"cwd":"/workspace","tool_input":{"path":"a"},"tool_name":"Write","tool_use_id":"ID"}`},
		{"postToolUse", nil, []step{use(`Grep {"pattern":"x"}`)}, `{"cwd":"/workspace","duration":1,"tool_input":{"pattern":"x"},"tool_name":"Grep","tool_output":"ok","tool_use_id":"ID"}`},
		{"postToolUseFailure/ofTheServer", func(r *rig) { r.searchable() }, []step{use(`WebSearch {"search_term":" "}`)},
			`{"cwd":"/workspace","duration":0,"error_message":"search_term is empty: give the words to search for","failure_type":"error","tool_input":{"search_term":" "},"tool_name":"WebSearch","tool_use_id":"ID"}`},
		{"postToolUseFailure/error", failing("no such file", ""), []step{use(`Read {"path":"a"}`)},
			`{"cwd":"/workspace","duration":1,"error_message":"no such file","failure_type":"error","tool_input":{"path":"a"},"tool_name":"Read","tool_use_id":"ID"}`},
		{"postToolUseFailure/timeout", failing("killed after 1 s", tool.Timeout), []step{use(`Shell {"command":"x"}`)},
			`{"cwd":"/workspace","duration":1,"error_message":"killed after 1 s","failure_type":"timeout","tool_input":{"command":"x"},"tool_name":"Shell","tool_use_id":"ID"}`},
		{"postToolUseFailure/words", failing("timed out: permission denied", ""), []step{use(`Read {"path":"a"}`)},
			`{"cwd":"/workspace","duration":1,"error_message":"timed out: permission denied","failure_type":"error","tool_input":{"path":"a"},"tool_name":"Read","tool_use_id":"ID"}`},
		{"postToolUseFailure/by_the_machine", failing("no", tool.PermissionDenied), []step{use(`Write {"path":"a","contents":"x"}`)},
			`{"cwd":"/workspace","duration":1,"error_message":"no","failure_type":"permission_denied","tool_input":{"contents":"x","path":"a"},"tool_name":"Write","tool_use_id":"ID"}`},
		{"postToolUseFailure/permission_denied", func(r *rig) {
			r.reviewed(permit.Allowlist, "")
			r.answer(agent.Deny, "")
		}, []step{use(`Shell {"command":"x"}`)},
			`{"cwd":"/workspace","duration":0,"error_message":"Not run: the user denied it.","failure_type":"permission_denied","tool_input":{"command":"x"},"tool_name":"Shell","tool_use_id":"ID"}`},
		{"beforeShellExecution", nil, []step{use(`Shell {"command":"a && b"}`)}, `{"command":"a \u0026\u0026 b","cwd":"/workspace","sandbox":false}`},
		{"beforeShellExecution/Folder", nil, []step{use(`Shell {"command":"ls","working_directory":"/tmp"}`)}, `{"command":"ls","cwd":"/tmp","sandbox":false}`},
		{"beforeShellExecution/Sandboxed", func(r *rig) {
			r.reviewed(permit.AutoReview, "")
			r.machine.enforced = true
		}, []step{use(`Shell {"command":"ls"}`)}, `{"command":"ls","cwd":"/workspace","sandbox":true}`},
		{"beforeShellExecution/Allowlisted", func(r *rig) {
			r.reviewed(permit.AutoReview, `{"terminalAllowlist":["ls"]}`)
			r.machine.enforced = true
		}, []step{use(`Shell {"command":"ls"}`)}, `{"command":"ls","cwd":"/workspace","sandbox":false}`},
		{"beforeShellExecution/RunEverything", func(r *rig) {
			r.reviewed(permit.RunEverything, "")
			r.machine.enforced = true
		}, []step{use(`Shell {"command":"ls"}`)}, `{"command":"ls","cwd":"/workspace","sandbox":false}`},
		{"afterShellExecution", nil, []step{use(`Shell {"command":"ls"}`)}, `{"command":"ls","duration":1,"output":"ok","sandbox":false}`},
		{"afterShellExecution/Sandboxed", func(r *rig) {
			r.reviewed(permit.AutoReview, "")
			r.machine.enforced = true
		}, []step{use(`Shell {"command":"ls"}`)}, `{"command":"ls","duration":1,"output":"ok","sandbox":true}`},
		{"beforeReadFile", nil, []step{use(`Read {"path":"a"}`)}, `{"file_path":"a"}`}, // the machine adds the file's content
		{"afterFileEdit", nil, []step{use(`StrReplace {"path":"a","old_string":"x","new_string":"y"}`)}, `{"edits":[{"new_string":"y","old_string":"x"}],"file_path":"a"}`},
		{"afterFileEdit/Write", nil, []step{use(`Write {"path":"a","contents":"x"}`)}, `{"edits":[{"new_string":"x","old_string":""}],"file_path":"a"}`},
		{"afterFileEdit/EditNotebook", nil, []step{use(`EditNotebook {"target_notebook":"n.ipynb","old_string":"x","new_string":"y"}`)},
			`{"edits":[{"new_string":"y","old_string":"x"}],"file_path":"n.ipynb"}`},
		{"beforeSubmitPrompt", nil, nil, `{"attachments":[],"prompt":"mend it"}`},
		{"beforeSubmitPrompt/attachments", func(r *rig) {
			r.record(&agent.RunEnded{Status: agent.Finished})
			r.run = agent.NewRunID()
			prompt := conversation.Text(conversation.User, "look")
			prompt.Blocks = append(prompt.Blocks, conversation.Block{Image: &conversation.Image{MediaType: "image/png", Data: []byte("12345")}})
			r.record(&agent.RunCreated{Prompt: prompt})
		}, nil, `{"attachments":[{"media_type":"image/png","size_bytes":5,"type":"image"}],"prompt":"look"}`},
		{"preCompact", func(r *rig) { r.info.ContextWindow = 2000 }, []step{use(`Read {"path":"` + long + `"}`), say("the summary")},
			`{"context_tokens":2515,"context_usage_percent":125,"message_count":3,"trigger":"auto"}`},
		{"afterAgentResponse", nil, nil, `{"text":"done"}`},
		{"afterAgentThought", nil, []step{func(yield func(model.Event, error) bool) {
			m := conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Thinking: &conversation.Thinking{Text: "hm"}}, {Text: "so"}}}
			yield(model.Event{Done: &model.Reply{Stop: model.StopEnd, Message: m}}, nil)
		}}, `{"text":"hm"}`},
		{"stop", nil, nil, `{"loop_count":0,"status":"completed"}`},
		{"stop/error", nil, []step{fail(&model.Error{Reason: model.BadRequest, Message: "no"})}, `{"loop_count":0,"status":"error"}`},
		{"sessionStart", nil, nil, `{"is_background_agent":true,"session_id":"AGENT"}`},
		{"sessionEnd", nil, nil, `{"duration_ms":0,"reason":"completed","session_id":"AGENT"}`},
		{"sessionEnd/error", nil, []step{fail(&model.Error{Reason: model.BadRequest, Message: "no"})}, `{"duration_ms":0,"reason":"error","session_id":"AGENT"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, false)
			all := r.listen()
			if c.setup != nil {
				c.setup(r)
			}
			r.model.steps = slices.Concat(c.steps, done)
			r.work(t.Context())
			event, _, _ := strings.Cut(c.name, "/")
			if diff := cmp.Diff(c.want, all.fields(t, event)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHookTools checks the tool names with which matchers are compared.
func TestHookTools(t *testing.T) {
	for _, c := range []struct{ name, tools string }{
		{"Shell", "Shell"}, {"Read", "Read"}, {"Write", "Write StrReplace EditNotebook"}, {"Grep", "Grep"}, {"Delete", "Delete"}, {"LS", "LS"},
		{"Fetch", "Fetch WebFetch"}, {"ReadLints", "ReadLints"}, {"WriteShellStdin", "WriteShellStdin"}, {"Glob", "Glob"},
		{"RecordScreen", "RecordScreen"}, {"Task", "Task"}, {"ListMcpResources", "ListMcpResources"}, {"FetchMcpResource", "FetchMcpResource"}, {"ComputerUse", "ComputerUse"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name := range strings.FieldsSeq(c.tools) {
				r := newRig(t, false)
				all := r.listen()
				args := "{}"
				if strings.HasSuffix(name, "McpResource") || strings.HasSuffix(name, "McpResources") {
					r.connected()
					args = `{"server":"tickets","uri":"ticket://7"}`
				}
				r.model.steps = []step{use(name + " " + args), say("done")}
				if name == "ComputerUse" { // only a subagent has the tool
					r.info.Images = true
					r.model.steps = []step{use(`Task {"prompt":"p","subagent_type":"computerUse"}`), use(name + " " + args), say("sub"), say("done")}
				}
				r.work(t.Context())
				if name != "Task" {
					*all = slices.DeleteFunc(*all, func(e hook.Input) bool { return e.Subject == "Task" })
				}
				for _, e := range *all {
					if (e.Event == "preToolUse" || e.Event == "postToolUse") && e.Subject != c.name {
						t.Errorf("%s of %s is %q", e.Event, name, e.Subject)
					}
				}
				if got := all.fields(t, "preToolUse"); !strings.Contains(got, `"tool_name":"`+c.name+`"`) {
					t.Errorf("hooks of %s are told %s", name, got)
				}
			}
		})
	}
}

// A refused call did not run, so the hooks that follow a call do not run.
func TestARefusedCallWasNotDone(t *testing.T) {
	r := newRig(t, false)
	all := r.listen()
	r.reviewed(permit.Allowlist, "")
	r.answer(agent.Deny, "")
	r.model.steps = []step{use(`Shell {"command":"x"}`), say("done")}
	r.work(t.Context())
	for _, e := range *all {
		if e.Event == "afterShellExecution" || e.Event == "postToolUse" {
			t.Errorf("hooks are told %+v", e)
		}
	}
}

// A server that restarts during a call does not know which hooks exist. It must
// still run those that follow the call.
func TestHooksAfterARestart(t *testing.T) {
	r := newRig(t, false)
	all := r.listen()
	r.record(&agent.RunStarted{}, &agent.TurnReplied{Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{
		{Call: &conversation.ToolCall{ID: "call_2_0", Name: "Shell", Args: json.RawMessage(`{"command":"ls"}`)}},
	}}}, &agent.CallJudged{CallID: "call_2_0", Treatment: agent.CallRun}, &agent.CallSent{CallID: "call_2_0", BootID: "boot-1"})
	r.model.steps = []step{say("done")}
	r.work(t.Context())
	var names []string
	for _, e := range *all {
		names = append(names, string(e.Event))
	}
	if diff := cmp.Diff([]string{"postToolUse", "afterShellExecution", "afterAgentResponse", "stop", "sessionEnd"}, names); diff != "" {
		t.Error(diff)
	}
}
