package loop_test

import (
	"slices"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/policy/permit"
)

// reviewer returns a rig with a new agent that reviews a change.
func (r *rig) reviewer(change string) *rig {
	r.t.Helper()
	other := &rig{t: r.t, store: r.store, id: agent.NewID(), run: agent.NewRunID(), machine: r.machine, info: r.info}
	other.begin(&agent.Created{
		Name: "review", Branch: "aloft/review-0000", Repos: []agent.Repo{{URL: "https://git.example.com/r"}},
		Env: agent.Env{Preset: agent.Reviewer}, Review: &agent.ReviewTask{Patch: change},
	})
	return other
}

const reviewedChange = `diff --git a/list.go b/list.go
--- a/list.go
+++ b/list.go
@@ -10,3 +10,3 @@
 func Last(l []int) int {
-	return l[len(l)-1]
+	return l[len(l)]
 }
`

// A reviewer reports findings, but commits and pushes nothing. It has no tools
// that access the repository's server or change its mode.
func TestReviewer(t *testing.T) {
	r := newRig(t, true).reviewer(reviewedChange)
	r.pulls = &pulls{}
	r.reviewed(permit.RunEverything, "")
	finding := `{"path":"list.go","line":11,"severity":"FINDING_SEVERITY_HIGH","title":"Index out of range","body":"It always panics.","suggestion":"\treturn l[len(l)-1]\n"}`
	r.model.steps = []step{
		use(`ReportFindings {"findings":[` + finding + `,{"path":"list.go","line":13,"severity":"FINDING_SEVERITY_LOW","title":"t","body":"b"}]}`),
		use(`ReportFindings {"findings":[` + finding + `]}`),
		use(`PrManagement {"action":"PR_ACTION_CREATE","title":"x"}`, `SwitchMode {"target_mode":"plan"}`),
		say("It panics."),
	}
	run := r.work(t.Context())
	if run.Status != agent.Finished || run.Result != "It panics." || len(run.Branches) > 0 {
		t.Fatalf("run %+v", run)
	}
	if len(bodies[*agent.Committed](r))+len(bodies[*agent.Pushed](r))+len(bodies[*agent.PullRequestAsked](r)) > 0 {
		t.Error("it has delivered something")
	}
	done := bodies[*agent.CallDone](r)
	if len(done) != 4 || done[0].Error || !strings.Contains(done[0].Text, "Accepted as F-1: list.go:11") || !strings.Contains(done[0].Text, "findings[1]: the lines 13-13 are not within") {
		t.Fatalf("results %+v", done)
	}
	if !done[1].Error || !strings.Contains(done[1].Text, "it is the same as F-1") {
		t.Errorf("the repeated finding: %+v", done[1])
	}
	for _, d := range done[2:] {
		if !d.Error || !strings.Contains(d.Text, "you only review the change") {
			t.Errorf("got %q", d.Text)
		}
	}
	state := agent.Fold(r.id, r.events())
	if len(state.Findings) != 1 || state.Findings[0].Severity != agent.High || state.Findings[0].EndLine != 11 || state.Findings[0].ID != "F-1" {
		t.Errorf("findings %+v", state.Findings)
	}
	if slices.Contains(r.machine.asked, "Push") {
		t.Errorf("asked %q", r.machine.asked)
	}
}

// Other agents cannot report findings.
func TestFindingsOfOthers(t *testing.T) {
	r := newRig(t, true)
	r.model.steps = []step{use(`ReportFindings {"findings":[{"path":"x","line":1,"severity":"FINDING_SEVERITY_LOW","title":"t","body":"b"}]}`), say("done")}
	r.work(t.Context())
	if done := bodies[*agent.CallDone](r); len(done) != 1 || !done[0].Error || !strings.Contains(done[0].Text, "only for agents that review") {
		t.Errorf("got %+v", done)
	}
}

// The changes contain planted bugs, except one change. Reports at the right
// lines become findings; reports elsewhere do not.
func TestPlantedBugs(t *testing.T) {
	change := func(removed, added string) string {
		return "diff --git a/a.go b/a.go\n--- a/a.go\n+++ b/a.go\n@@ -1,3 +1,3 @@\n func f() {\n-\t" + removed + "\n+\t" + added + "\n }\n"
	}
	report := func(path string, line string) string {
		return `{"path":"` + path + `","line":` + line + `,"severity":"FINDING_SEVERITY_MEDIUM","title":"A bug","body":"It is wrong."}`
	}
	corpus := []struct {
		name, change string
		bug          int // the bug's line; 0 if there is no bug
		reports      []string
	}{
		{"OffByOne", change("for i := 0; i < n; i++ {}", "for i := 0; i <= n; i++ {}"), 2, []string{report("a.go", "2"), report("a.go", "40")}},
		{"LostError", change("return err", "return nil"), 2, []string{report("a.go", "2"), report("b.go", "2")}},
		{"Unlocked", change("mu.Lock()", "_ = mu"), 2, []string{report("a.go", "2"), report("a.go", "2")}},
		{"Negated", change("if ok {", "if !ok {"), 2, []string{report("a.go", "0"), report("/etc/passwd", "2"), report("a.go", "2")}},
		{"NoBug", change("x := 1", "y := 1"), 0, []string{report("a.go", "9")}},
	}
	found, missed, alarms := 0, 0, 0
	for _, c := range corpus {
		r := newRig(t, true).reviewer(c.change)
		r.model.steps = []step{use(`ReportFindings {"findings":[` + strings.Join(c.reports, ",") + `]}`), say("done")}
		r.work(t.Context())
		state := agent.Fold(r.id, r.events())
		hit := false
		for _, f := range state.Findings {
			if f.Path == "a.go" && f.Line <= c.bug && c.bug <= f.EndLine {
				hit = true
			} else {
				alarms++
				t.Logf("%s: false alarm %+v", c.name, f)
			}
		}
		switch {
		case hit:
			found++
		case c.bug > 0:
			missed++
		}
	}
	if found != 4 || missed != 0 || alarms != 0 {
		t.Errorf("found %d, missed %d, false alarms %d", found, missed, alarms)
	}
}
