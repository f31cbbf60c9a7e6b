package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/tool"
)

func TestAttribution(t *testing.T) {
	lines := []tool.Attributed{
		{Path: "a.go", First: 1, Last: 2, Commit: "111111111111", AgentID: "bc-1", RunID: "run-1"},
		{Path: "a.go", First: 3, Last: 3, Commit: "222222222222"},
		{Path: "b\n.go", First: 1, Last: 9, Commit: "111111111111", AgentID: "bc-1", RunID: "run-1"},
	}
	var asked []string
	read := func(_ context.Context, _ *agent.State, names []string) ([]tool.Attributed, error) {
		asked = names
		if len(names) == 1 && names[0] == "missing" {
			return nil, fault.NotFound("it is missing")
		}
		return append([]tool.Attributed(nil), lines...), nil
	}
	for name, c := range map[string]struct {
		args, want string
		failed     bool
		asked      []string
	}{
		"all":          {`{}`, "\"a.go\"\n  1-2 commit 111111111111 agent bc-1 run run-1\n  3-3 commit 222222222222\n\"b\\n.go\"\n  1-9 commit", false, []string{}},
		"files":        {`{"file_paths": ["/workspace/a.go", "x/../b"]}`, `"a.go"`, false, []string{"a.go", "b"}},
		"one commit":   {`{"commit_hashes": ["2222222"]}`, "\"a.go\"\n  3-3 commit 222222222222\n", false, []string{}},
		"a long id":    {`{"commit_hashes": ["2222222222222222222222222222222222222222"]}`, "\"a.go\"\n  3-3 commit 222222222222\n", false, []string{}},
		"no lines":     {`{"commit_hashes": ["3333333"]}`, "There are no such lines", false, []string{}},
		"outside":      {`{"file_paths": ["/etc/passwd"]}`, `file_paths[0]: "/etc/passwd" is not a file in /workspace`, true, nil},
		"above":        {`{"file_paths": ["../x"]}`, "is not a file in /workspace", true, nil},
		"empty path":   {`{"file_paths": [""]}`, "is not a file in /workspace", true, nil},
		"the folder":   {`{"file_paths": ["."]}`, "is not a file in /workspace", true, nil},
		"short commit": {`{"commit_hashes": ["12"]}`, "is not a commit id of 7 or more digits", true, nil},
		"a ref":        {`{"commit_hashes": ["--all12"]}`, "is not a commit id", true, nil},
		"unknown":      {`{"paths": []}`, "do not match the schema", true, nil},
		"many":         {fmt.Sprintf(`{"file_paths": [%s"a"]}`, strings.Repeat(`"a",`, 100)), "file_paths has 101 paths", true, nil},
		"fault":        {`{"file_paths": ["missing"]}`, "Nothing was found out: it is missing", true, []string{"missing"}},
	} {
		asked = nil
		r, err := Attribute(t.Context(), conversation.ToolCall{ID: "c", Name: Attribution, Args: json.RawMessage(c.args)}, &agent.State{}, read)
		if err != nil || r.Error != c.failed || !strings.HasPrefix(r.Text, c.want) && !strings.Contains(r.Text, c.want) || !c.failed && !json.Valid(r.Output) {
			t.Errorf("%s: %+v, %v, want %q", name, r, err, c.want)
		}
		if diff := cmp.Diff(c.asked, asked); diff != "" {
			t.Errorf("%s: asked for %s", name, diff)
		}
	}
	r, err := Attribute(t.Context(), conversation.ToolCall{Name: Attribution, Args: json.RawMessage(`{"commit_hashes": ["2222222"]}`)}, &agent.State{}, read)
	if want := `{"success":{"lines":[{"path":"a.go","startLine":3,"endLine":3,"commitHash":"222222222222"}]}}`; err != nil || string(r.Output) != want {
		t.Errorf("the output is %s, %v", r.Output, err)
	}
	if r, err := Attribute(t.Context(), conversation.ToolCall{Name: Attribution, Args: json.RawMessage(`{}`)}, &agent.State{}, nil); err != nil || !strings.Contains(r.Text, "not available") {
		t.Errorf("without an attributor: %+v, %v", r, err)
	}
}
