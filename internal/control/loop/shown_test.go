package loop_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/hook"
	"aloft/internal/policy/permit"
)

// A call that is too long to be shown completely is refused, and the model
// learns the reason.
func TestACallThatNobodyCanReadIsRefused(t *testing.T) {
	r := newRig(t, false)
	r.reviewed(permit.Allowlist, "")
	r.model.steps = []step{use(`Shell {"command":"echo ` + strings.Repeat("x", 300<<10) + `"}`), say("done")}
	r.work(t.Context())
	if diff := cmp.Diff([]string{"refused by policy"}, treatments(r)); diff != "" {
		t.Error(diff)
	}
	if n := len(bodies[*agent.ApprovalAsked](r)); n != 0 {
		t.Errorf("%d questions", n)
	}
	if got := results(r); len(got) != 1 || !strings.Contains(got[0], "smaller steps") {
		t.Errorf("results %q", got)
	}
}

// An approval request says where a command will run. If a tool needs approval
// only because of a hook, the request describes the tool's effect.
func TestAQuestionShowsTheWholeCall(t *testing.T) {
	r := newRig(t, false)
	r.reviewed(permit.Allowlist, "")
	r.machine.hooks = func(call hook.Call) hook.Outcome {
		if call.Events[0].Event == "preToolUse" && call.Events[0].Subject == "Grep" {
			return hook.Outcome{Permission: "ask"}
		}
		return hook.Outcome{}
	}
	r.model.steps = []step{use(`Shell {"command":"rm -rf *","working_directory":"/srv"}`), use(`Grep {"pattern":"password"}`), say("done")}
	r.answers(agent.ApprovalAnswered{Decision: agent.Deny}, agent.ApprovalAnswered{Decision: agent.Deny})
	r.work(t.Context())
	var got [][2]string
	for _, q := range bodies[*agent.ApprovalAsked](r) {
		got = append(got, [2]string{q.Approval.Subject, q.Approval.Folder})
	}
	if diff := cmp.Diff([][2]string{{"rm -rf *", "/srv"}, {`{"pattern":"password"}`, ""}}, got); diff != "" {
		t.Error(diff)
	}
}
