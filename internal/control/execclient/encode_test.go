package execclient

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"aloft/internal/control/machinerpc"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/policy/sandbox"
	"aloft/internal/tool"
	"aloft/internal/wire/agentv1"
)

func TestEncodeCall(t *testing.T) {
	for name, c := range map[string]struct {
		tool, args string
		want       *agentv1.ToolCall
	}{
		"Shell": {"Shell", `{"command":"ls","timeout":500,"is_background":true}`, &agentv1.ToolCall{
			Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: &agentv1.ShellToolCall{Args: &agentv1.ShellArgs{
				Command: "ls", Timeout: proto.Int32(500), IsBackground: true, ToolCallId: "c1",
			}}},
		}},
		"NamesThatAreNoWords": {"Grep", `{"pattern":"x","-A":2,"-i":true,"output_mode":"count"}`, &agentv1.ToolCall{
			Tool: &agentv1.ToolCall_GrepToolCall{GrepToolCall: &agentv1.GrepToolCall{Args: &agentv1.GrepArgs{
				Pattern: "x", AfterContext: proto.Int32(2), CaseInsensitive: true, OutputMode: agentv1.GrepArgs_count, ToolCallId: "c1",
			}}},
		}},
		"OneOfTwoArguments": {"Write", `{"path":"a","contents":""}`, &agentv1.ToolCall{
			Tool: &agentv1.ToolCall_EditToolCall{EditToolCall: &agentv1.EditToolCall{Args: &agentv1.EditToolCall_Write{
				Write: &agentv1.WriteArgs{Path: "a", ToolCallId: "c1"},
			}}},
		}},
		"NullIsAbsent": {"Read", `{"path":"a","limit":null}`, &agentv1.ToolCall{
			Tool: &agentv1.ToolCall_ReadToolCall{ReadToolCall: &agentv1.ReadToolCall{Args: &agentv1.ReadToolArgs{Path: "a", ToolCallId: "c1"}}},
		}},
		"Lists": {"TodoWrite", `{"todos":[{"id":"1","content":"x","status":"in_progress"}],"merge":false}`, &agentv1.ToolCall{
			Tool: &agentv1.ToolCall_UpdateTodosToolCall{UpdateTodosToolCall: &agentv1.UpdateTodosToolCall{Args: &agentv1.UpdateTodosArgs{
				Todos: []*agentv1.TodoItem{{Id: "1", Content: "x", Status: agentv1.TodoStatus_in_progress}},
			}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := EncodeCall(conversation.ToolCall{ID: "c1", Name: c.tool, Args: []byte(c.args)})
			if err != nil || !proto.Equal(got, c.want) {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestEncodeCallTellsTheModelWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ tool, args, field, want string }{
		"NoSuchTool":      {"Dance", `{}`, "", `there is no tool "Dance"; there are AiAttribution, ApplyAgentDiff, AskQuestion, Await, CallMcpTool`},
		"NotJSON":         {"Grep", `{"pattern": "x"`, "", "not a JSON object"},
		"NotAnObject":     {"Grep", `["x"]`, "", "not a JSON object"},
		"Nothing":         {"Grep", ``, "pattern", "pattern is missing"},
		"UnknownArgument": {"Grep", `{"pattern":"x","patern":"y"}`, "patern", `no argument "patern"; it takes pattern, path, glob, output_mode, -A, -B, -C, -i`},
		"NotTheModels":    {"Grep", `{"pattern":"x","tool_call_id":"y"}`, "tool_call_id", "no argument"},
		"OurNameForIt":    {"Grep", `{"pattern":"x","case_insensitive":true}`, "case_insensitive", "no argument"},
		"Missing":         {"StrReplace", `{"path":"a","old_string":"b"}`, "new_string", "new_string is missing"},
		"NullForNeeded":   {"Grep", `{"pattern":null}`, "pattern", "pattern is missing"},
		"WrongType":       {"Shell", `{"command":["ls"]}`, "command", "command must be a string"},
		"NotANumber":      {"Shell", `{"command":"ls","timeout":"soon"}`, "timeout", "timeout must be a whole number"},
		"TooBigANumber":   {"Shell", `{"command":"ls","timeout":3000000000}`, "timeout", "timeout must be a whole number"},
		"NotABool":        {"Shell", `{"command":"ls","is_background":"yes"}`, "is_background", "must be true or false"},
		"NotOfTheEnum":    {"Grep", `{"pattern":"x","output_mode":"lines"}`, "output_mode", "must be one of content, files_with_matches, count"},
		"NumberForEnum":   {"Grep", `{"pattern":"x","output_mode":7}`, "output_mode", "must be one of content"},
		"DeepInside":      {"TodoWrite", `{"todos":[{"id":"1","what":"x"}],"merge":true}`, "todos", `must be a list: unknown field "what"`},
		"TooLong":         {"Write", `{"path":"a","contents":"` + strings.Repeat("x", maxArgs) + `"}`, "", "longer than 8 MiB"},
		"NotUTF8":         {"Write", "{\"path\":\"a\xff\",\"contents\":\"\"}", "path", "path must be a string"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := EncodeCall(conversation.ToolCall{ID: "c1", Name: c.tool, Args: []byte(c.args)})
			what := fault.Of(err)
			if !fault.Is(err, fault.KindInvalid) || what.Field != c.field || !strings.Contains(what.Message, c.want) {
				t.Errorf("%v at %q, want %q at %q", err, what.Field, c.want, c.field)
			}
			if strings.Contains(what.Message, "proto:") || strings.Contains(what.Message, "(line") || len(what.Message) > 1000 {
				t.Errorf("message is %q", what.Message)
			}
		})
	}
}

// The schema for the model and the decoder of its calls are written separately.
// They must accept the same field names.
func TestEncodeCallKnowsTheCatalogue(t *testing.T) {
	for _, spec := range tool.Catalogue() {
		to, ok := variants()[spec.Name]
		if !ok {
			t.Errorf("%s is not to be encoded", spec.Name)
			continue
		}
		for _, name := range inOrder(to.args.Message()) {
			if !bytes.Contains(spec.Schema, []byte(`"`+name+`"`)) {
				t.Errorf("%s: the schema lacks %s", spec.Name, name)
			}
		}
	}
}

func FuzzEncodeCall(f *testing.F) {
	f.Add("Shell", []byte(`{"command":"ls","timeout":1e2}`))
	f.Add("Grep", []byte(`{"pattern":"x","-A":2,"-i":true,"output_mode":"count"}`))
	f.Add("TodoWrite", []byte(`{"todos":[{"id":"1","content":"x","status":"pending"}],"merge":false}`))
	f.Add("Edit", []byte(`null`))
	f.Fuzz(func(t *testing.T, name string, args []byte) {
		call, err := EncodeCall(conversation.ToolCall{ID: "c1", Name: name, Args: args})
		if err != nil {
			if text := fault.Of(err).Message; !fault.Is(err, fault.KindInvalid) || !utf8.ValidString(text) || len(text) > 4<<10 {
				t.Fatalf("%q", err)
			}
			return
		}
		if _, err := proto.Marshal(call); err != nil {
			t.Fatalf("%q cannot be sent: %v", args, err)
		}
	})
}

// Each tool that changes a file has the field that tells the machine to check
// the path.
func TestEncodeGuarded(t *testing.T) {
	for name, args := range map[string]string{
		"Write": `{"path":"a","contents":"b"}`, "StrReplace": `{"path":"a","old_string":"b","new_string":"c"}`, "Delete": `{"path":"a"}`,
		"EditNotebook":     `{"target_notebook":"a","cell_idx":0,"is_new_cell":true,"cell_language":"r","old_string":"","new_string":"b"}`,
		"FetchMcpResource": `{"server":"a","uri":"b","downloadPath":"c"}`,
	} {
		for _, guarded := range []bool{true, false} {
			m, err := EncodeCall(conversation.ToolCall{ID: "c1", Name: name, Args: []byte(args), Guarded: guarded})
			if err != nil {
				t.Fatal(err)
			}
			edit := m.GetEditToolCall()
			got := edit.GetWrite().GetGuarded() || edit.GetStrReplace().GetGuarded() || edit.GetEditNotebook().GetGuarded() ||
				m.GetDeleteToolCall().GetArgs().GetGuarded() || m.GetReadMcpResourceToolCall().GetArgs().GetGuarded()
			if got != guarded {
				t.Errorf("%s: guarded is %v, want %v", name, got, guarded)
			}
		}
	}
	if _, err := EncodeCall(conversation.ToolCall{ID: "c1", Name: "Write", Args: []byte(`{"path":"a","contents":"b","guarded":false}`)}); err == nil {
		t.Error("the model may say whether a call is guarded")
	}
}

// TestEncodeGuard checks that a guarded command runs outside of the sandbox, and
// that a model cannot set the guard.
func TestEncodeGuard(t *testing.T) {
	m, err := EncodeCall(conversation.ToolCall{ID: "c1", Name: "Shell", Args: []byte(`{"command":"git log"}`)})
	if err != nil {
		t.Fatal(err)
	}
	policy := machinerpc.EncodePolicy(sandbox.Default())
	confine(m, policy)
	guardLine(m, &conversation.Guard{Git: true, Folders: []string{"a"}, Elsewhere: true, Refuse: true})
	args := m.GetShellToolCall().GetArgs()
	want := &agentv1.ShellGuard{SandboxPolicy: policy, Git: true, Folders: []string{"a"}, Elsewhere: true, Refuse: true}
	if !proto.Equal(args.GetGuard(), want) || !proto.Equal(args.GetRequestedSandboxPolicy(), outside) {
		t.Errorf("got %v", args)
	}
	if _, err := EncodeCall(conversation.ToolCall{ID: "c1", Name: "Shell", Args: []byte(`{"command":"git log","guard":{}}`)}); err == nil {
		t.Error("the model may set the guard")
	}
}
