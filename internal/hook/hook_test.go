package hook

import (
	"encoding/json"
	"maps"
	"testing"
)

// TestJoin joins the outcomes of two hooks in both orders: the stricter permission
// counts, messages follow each other, and the later change replaces the earlier one.
func TestJoin(t *testing.T) {
	first := Outcome{Permission: Deny, UserMessage: "a", UpdatedInput: json.RawMessage(`{"n":1}`), Env: map[string]string{"A": "1", "B": "1"}, Ran: []Ran{{Command: "one"}}}
	second := Outcome{Permission: Allow, UserMessage: "b", AgentMessage: "c", Stopped: true, UpdatedInput: json.RawMessage(`{"n":2}`), Env: map[string]string{"B": "2"}, Ran: []Ran{{Command: "two"}}}
	for _, c := range []struct {
		got            Outcome
		message, input string
		b              string
		ran            string
	}{
		{first.Join(second), "a\nb", `{"n":2}`, "2", "one"},
		{second.Join(first), "b\na", `{"n":1}`, "1", "two"},
	} {
		if c.got.Permission != Deny || c.got.UserMessage != c.message || c.got.AgentMessage != "c" || !c.got.Stopped || string(c.got.UpdatedInput) != c.input ||
			!maps.Equal(c.got.Env, map[string]string{"A": "1", "B": c.b}) || len(c.got.Ran) != 2 || c.got.Ran[0].Command != c.ran {
			t.Errorf("joined: %+v", c.got)
		}
	}
	if len(first.Env) != 2 || first.Env["B"] != "1" {
		t.Errorf("joining has changed its argument: %v", first.Env)
	}
	order := []Permission{None, Allow, Ask, Deny}
	for i, a := range order {
		for j, b := range order {
			if got := (Outcome{Permission: a}).Join(Outcome{Permission: b}).Permission; got != order[max(i, j)] {
				t.Errorf("%q and %q are %q", a, b, got)
			}
		}
	}
}
