package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/conversation"
)

// TestReports is a table of reflections and reports about bugs.
func TestReports(t *testing.T) {
	bug := func(id, verdict, why string) string {
		return fmt.Sprintf(`{"bug_id":%q,"verdict":"BUGFIX_VERDICT_%s","explanation":%q}`, id, verdict, why)
	}
	report := func(bugs ...string) string {
		return `ReportBugfixResults {"results":[` + strings.Join(bugs, ",") + `]}`
	}
	for name, c := range map[string]struct {
		call, want string
		failed     bool
	}{
		"Reflect":         {`Reflect {"reflection":"The tests pass."}`, "Noted", false},
		"ReflectNothing":  {`Reflect {"reflection":" "}`, "reflection is missing", true},
		"ReflectUnknown":  {`Reflect {"thought":"x"}`, "do not match the schema", true},
		"Report":          {report(bug("B-1", "FIXED", ""), bug("B-2", "FALSE_POSITIVE", "by design"), bug("B-3", "COULD_NOT_FIX", "no access")), "B-1: fixed\nB-2: not a bug\nB-3: not fixed\n", false},
		"ReportNothing":   {report(), "results: has 0", true},
		"ReportTwice":     {report(bug("B-1", "FIXED", ""), bug("B-1", "FIXED", "")), `results[1].bug_id: duplicate "B-1"`, true},
		"ReportWithoutID": {report(bug("", "FIXED", "")), "results[0].bug_id is missing", true},
		"ReportWithout":   {report(bug("B-1", "UNSPECIFIED", "")), `results[0].verdict is "BUGFIX_VERDICT_UNSPECIFIED"`, true},
		"ReportUnproved":  {report(bug("B-1", "COULD_NOT_FIX", "")), "results[0].explanation is missing: say why B-1 is not fixed", true},
	} {
		t.Run(name, func(t *testing.T) {
			tool, args, _ := strings.Cut(c.call, " ")
			r, also := Run(t.Context(), conversation.ToolCall{ID: "c", Name: tool, Args: json.RawMessage(args)}, &agent.State{}, nil)
			if r.Error != c.failed || !strings.Contains(r.Text, c.want) || also != nil || !c.failed && !json.Valid(r.Output) {
				t.Errorf("got %+v, want %q", r, c.want)
			}
		})
	}
}
