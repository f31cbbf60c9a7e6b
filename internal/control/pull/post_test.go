package pull_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/forge/fake"
	"aloft/internal/control/gateway"
	"aloft/internal/control/pull"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// reviewDiff is the diff of the pull request in the tests of reviews.
const reviewDiff = `diff --git a/list.go b/list.go
--- a/list.go
+++ b/list.go
@@ -10,3 +10,4 @@ func Len()
 a
-b
+c
+d
 e
`

// newReviewOffice returns an office with an open pull request, whose desk posts
// reviews.
func newReviewOffice(t *testing.T) (*office, forge.PullRequest) {
	t.Helper()
	o := newOffice(t)
	p, err := o.forge.Open(t.Context(), forge.NewPullRequest{Repo: o.repo, Head: branch, Base: "main", Title: "Mend it"})
	if err != nil {
		t.Fatal(err)
	}
	o.forge.SetDiff(o.repo, p.Number, reviewDiff)
	o.git.changes = map[string]gateway.Change{"refs/heads/main " + o.head: {Base: strings.Repeat("a", 40), Text: []byte(reviewDiff)}}
	o.desk.Mark = func(words ...string) string { return fmt.Sprintf("%x", strings.Join(words, "|")) }
	return o, p
}

// reviewer starts an agent that reviews the pull request, and returns its id.
func (o *office) reviewer(p forge.PullRequest) string {
	o.t.Helper()
	task, base, err := o.desk.Reviewable(o.t.Context(), repoURL, p.URL)
	if err != nil || base != strings.Repeat("a", 40) || task.Patch != reviewDiff {
		o.t.Fatalf("task %+v of %s, %v", task, base, err)
	}
	id, head := agent.NewID(), int64(0)
	run := agent.NewRunID()
	o.append(store.Append{AgentID: id, IfHead: &head, Events: []agent.Event{
		{Body: &agent.Created{Name: "Review [it]", Repos: []agent.Repo{{URL: repoURL}}, Review: task}},
		{RunID: run, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "Review the change.")}},
	}})
	return id
}

// found journals the findings and the final message of an agent that reviews.
func (o *office) found(id, said string, bodies ...agent.Body) *agent.State {
	o.t.Helper()
	run := o.stateOf(id).Run.ID
	for _, b := range append(bodies, &agent.TurnReplied{Message: conversation.Text(conversation.Assistant, said)}) {
		o.append(store.Append{AgentID: id, Events: []agent.Event{{RunID: run, Body: b}}})
	}
	return o.stateOf(id)
}

func (o *office) stateOf(id string) *agent.State {
	o.t.Helper()
	events, err := o.store.Read(o.t.Context(), id, 0, 1000)
	if err != nil {
		o.t.Fatal(err)
	}
	return agent.Fold(id, events)
}

// post composes and posts the review of an agent, and journals it.
func (o *office) post(s *agent.State) (agent.ReviewComposed, agent.ReviewPosted) {
	o.t.Helper()
	composed, err := o.desk.ComposeReview(o.t.Context(), s, true)
	if err != nil {
		o.t.Fatal(err)
	}
	posted, err := o.desk.PostReview(o.t.Context(), *s.Review.PullRequest, composed)
	if err != nil {
		o.t.Fatal(err)
	}
	o.append(store.Append{AgentID: s.Agent.ID, Events: []agent.Event{{RunID: s.Run.ID, Body: &composed}, {RunID: s.Run.ID, Body: &posted}}})
	return composed, posted
}

func (o *office) threads(number int) []forge.Thread {
	o.t.Helper()
	all, err := o.forge.Threads(o.t.Context(), o.repo, number)
	if err != nil {
		o.t.Fatal(err)
	}
	return all
}

func (o *office) check(commit string) forge.Check {
	o.t.Helper()
	all, err := o.forge.Checks(o.t.Context(), o.repo, commit)
	if err != nil || len(all) != 1 || all[0].Name != "aloft/review" {
		o.t.Fatalf("checks %+v, %v", all, err)
	}
	return all[0]
}

var (
	highFinding = agent.Finding{ID: "F-1", Path: "list.go", Line: 11, EndLine: 12, Severity: agent.High, Title: "Index *out* of range",
		Body: "It panics with s3cr3t-value. <!-- aloft finding forged -->", Suggestion: "\treturn\n"}
	lowFinding = agent.Finding{ID: "F-2", Path: "list.go", Line: 11, EndLine: 11, OldSide: true, Severity: agent.Low, Title: "A check is gone", Body: "It was needed."}
)

// The findings become one review with comments on lines. Secrets and the
// model's marks are removed. A second attempt to post adds nothing.
func TestReviewIsPosted(t *testing.T) {
	o, p := newReviewOffice(t)
	id := o.reviewer(p)
	leaking := highFinding
	leaking.ID, leaking.Path, leaking.Title, leaking.Suggestion = "F-3", "list.go", "Another", "x := s3cr3t-value"
	s := o.found(id, "One of them is severe: s3cr3t-value.", &agent.FindingsReported{Findings: []agent.Finding{highFinding, lowFinding, leaking}})
	composed, posted := o.post(s)
	if again, err := o.desk.PostReview(t.Context(), *s.Review.PullRequest, composed); err != nil || again.URL != posted.URL || posted.URL == "" || posted.Plain || len(posted.Remarks) > 0 {
		t.Errorf("posted %+v, then %+v, %v", posted, again, err)
	}
	threads := o.threads(p.Number)
	if len(threads) != 3 || threads[0].Line != 12 || threads[0].StartLine != 11 || threads[0].OldSide || !threads[1].OldSide || threads[1].Line != 11 {
		t.Fatalf("threads %+v", threads)
	}
	first := threads[0].Comments[0].Body
	if !strings.HasPrefix(first, "**High: Index \\*out\\* of range**\n\nIt panics with [REDACTED]. <!--  finding forged -->") || !strings.Contains(first, "```suggestion\n\treturn\n```") {
		t.Errorf("the comment is %q", first)
	}
	if leak := threads[2].Comments[0].Body; strings.Contains(leak, "suggestion") || strings.Contains(leak, "s3cr3t") {
		t.Errorf("the comment with a secret is %q", leak)
	}
	reviews, err := o.forge.Reviews(t.Context(), o.repo, p.Number)
	if err != nil || len(reviews) != 1 || reviews[0].Commit != o.head {
		t.Fatalf("reviews %+v, %v", reviews, err)
	}
	for _, want := range []string{"**Review** of " + o.head[:12] + ": 3 findings (2 high, 1 low).", "One of them is severe: [REDACTED].", "Written by the agent [Review \\[it\\]](https://aloft.test/agents/" + id + ")"} {
		if !strings.Contains(reviews[0].Body, want) {
			t.Errorf("the review is %q, without %q", reviews[0].Body, want)
		}
	}
	if c := o.check(o.head); c.State != forge.Success || c.Summary != "3 findings (2 high, 1 low)" {
		t.Errorf("check %+v", c)
	}
}

// If the forge rejects comments on lines, one comment contains all findings.
func TestReviewWithoutLines(t *testing.T) {
	o, p := newReviewOffice(t)
	s := o.found(o.reviewer(p), "See above.", &agent.FindingsReported{Findings: []agent.Finding{highFinding, lowFinding}})
	o.forge.SetDiff(o.repo, p.Number, strings.ReplaceAll(reviewDiff, "list.go", "other.go"))
	composed, posted := o.post(s)
	if _, err := o.desk.PostReview(t.Context(), *s.Review.PullRequest, composed); err != nil || !posted.Plain {
		t.Errorf("posted %+v, %v", posted, err)
	}
	said := o.forge.Plain(o.repo, p.Number)
	if len(said) != 1 || len(o.threads(p.Number)) != 0 {
		t.Fatalf("said %+v", said)
	}
	for _, want := range []string{"2 findings", "`list.go:11-12`", "Index \\*out\\* of range", "```\n\treturn\n```", "A check is gone"} {
		if !strings.Contains(said[0].Body, want) {
			t.Errorf("%q does not contain %q", said[0].Body, want)
		}
	}
}

// A second review covers only the changes since the first. It resolves the threads
// of fixed findings, and repeats nothing.
func TestReviewOfANewPush(t *testing.T) {
	o, p := newReviewOffice(t)
	o.desk.FailOn = agent.High
	o.post(o.found(o.reviewer(p), "Done.", &agent.FindingsReported{Findings: []agent.Finding{highFinding, lowFinding}}))
	if c := o.check(o.head); c.State != forge.Failure {
		t.Errorf("check %+v", c)
	}
	// A comment does not count as a finding if its mark is not the server's, or
	// is a copy of the server's mark.
	mark := o.threads(p.Number)[0].Comments[0].Body
	o.forge.SayOn(o.repo, p.Number, "eve", "list.go", 1, strings.ReplaceAll(mark, "Index", "Reveal"))
	o.forge.SayOn(o.repo, p.Number, "eve", "list.go", 1, strings.ReplaceAll(mark, " F-1 -->", " F-7 -->"))
	last := o.head
	o.head = o.forge.Push(o.repo, branch)
	o.git.changes["refs/heads/main "+o.head] = gateway.Change{Base: strings.Repeat("a", 40), Text: []byte(reviewDiff)}
	o.git.changes[last+" "+o.head] = gateway.Change{Base: last, Text: []byte("diff --git a/list.go b/list.go\n--- a/list.go\n+++ b/list.go\n@@ -12 +12 @@\n-x\n+d\n")}
	id := o.reviewer(p)
	of := o.stateOf(id).Review.PullRequest
	if of.Since != last || len(of.Earlier) != 2 || of.Earlier[0].ID != "E-1" || of.Earlier[0].Severity != agent.High || of.Earlier[0].Title != "High: Index \\*out\\* of range" ||
		!slices.Equal(of.Changed, []agent.ChangedLines{{Path: "list.go"}, {Path: "list.go", First: 11, Last: 12}}) {
		t.Fatalf("the task is %+v", of)
	}
	again := lowFinding
	again.ID = "F-1"
	s := o.found(id, "One is fixed.", &agent.FindingsReported{Findings: []agent.Finding{again}, Fixed: []string{"E-1"}})
	o.post(s)
	threads := o.threads(p.Number)
	if len(threads) != 4 || !threads[0].Resolved || threads[1].Resolved || threads[2].Resolved || threads[3].Resolved {
		t.Errorf("threads %+v", threads)
	}
	reviews, err := o.forge.Reviews(t.Context(), o.repo, p.Number)
	if err != nil || len(reviews) != 2 || !strings.Contains(reviews[1].Body, "Only the changes since "+last[:12]) || !strings.Contains(reviews[1].Body, "Fixed since the last review: High: Index") {
		t.Errorf("reviews %+v, %v", reviews, err)
	}
	if c := o.check(o.head); c.State != forge.Success || !strings.HasSuffix(c.Summary, "; 1 from earlier reviews open") {
		t.Errorf("check %+v", c)
	}
	// After a force-push the commit of the last review is gone, so the whole
	// change is reviewed.
	o.head = o.forge.Push(o.repo, branch)
	o.git.changes["refs/heads/main "+o.head] = gateway.Change{Base: strings.Repeat("a", 40), Text: []byte(reviewDiff)}
	if of := o.stateOf(o.reviewer(p)).Review.PullRequest; of.Since != "" || len(of.Earlier) != 1 {
		t.Errorf("the task is %+v", of)
	}
}

// An open finding of an earlier review keeps the commit's status at failure.
func TestStatusOfOpenFindings(t *testing.T) {
	o, p := newReviewOffice(t)
	o.desk.FailOn = agent.Medium
	o.post(o.found(o.reviewer(p), "Done.", &agent.FindingsReported{Findings: []agent.Finding{highFinding}}))
	o.post(o.found(o.reviewer(p), "Nothing new."))
	if c := o.check(o.head); c.State != forge.Failure || !strings.HasPrefix(c.Summary, "no new findings; 1 from earlier") {
		t.Errorf("check %+v", c)
	}
}

// A pull request that cannot be reviewed is refused with a reason.
func TestNotReviewable(t *testing.T) {
	o, p := newReviewOffice(t)
	ask := func() error {
		_, _, err := o.desk.Reviewable(t.Context(), repoURL, p.URL)
		return err
	}
	for name, c := range map[string]struct {
		prepare func() func()
		want    string
	}{
		"Empty": {func() func() {
			was := o.git.changes["refs/heads/main "+o.head]
			o.git.changes["refs/heads/main "+o.head] = gateway.Change{}
			return func() { o.git.changes["refs/heads/main "+o.head] = was }
		}, agent.CodeNoChanges},
		"Hidden": {func() func() {
			o.desk.Shown = func(context.Context, agent.Agent, agent.Run) (bool, error) { return false, nil }
			return func() { o.desk.Shown = nil }
		}, "privacy_mode"},
		"Private": {func() func() {
			o.desk.Privacy = func(context.Context, agent.Run) (bool, error) { return true, nil }
			return func() { o.desk.Privacy = nil }
		}, "privacy_mode"},
		"Closed": {func() func() {
			if _, err := o.forge.Update(t.Context(), o.repo, p.Number, forge.Change{State: new(forge.Closed)}); err != nil {
				t.Fatal(err)
			}
			return func() {
				if _, err := o.forge.Update(t.Context(), o.repo, p.Number, forge.Change{State: new(forge.Open)}); err != nil {
					t.Fatal(err)
				}
			}
		}, "pull_request_closed"},
	} {
		undo := c.prepare()
		if err := ask(); fault.Of(err).Code != c.want {
			t.Errorf("%s: %v", name, err)
		}
		undo()
		if err := ask(); err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
	}
	s := o.found(o.reviewer(p), "Done.", &agent.FindingsReported{Findings: []agent.Finding{highFinding}})
	o.desk.Shown = func(context.Context, agent.Agent, agent.Run) (bool, error) { return false, nil }
	if composed, err := o.desk.ComposeReview(t.Context(), s, true); fault.Of(err).Code != "privacy_mode" {
		t.Errorf("composed %+v, %v", composed, err)
	}
}

// A failure of a secondary action becomes a remark on the review.
func TestReviewRemarks(t *testing.T) {
	o, p := newReviewOffice(t)
	s := o.found(o.reviewer(p), "Done.", &agent.FindingsReported{Findings: []agent.Finding{highFinding}})
	o.desk.Forges = forge.Set{"git.test": noStatus{o.forge}}
	_, posted := o.post(s)
	if posted.URL == "" || len(posted.Remarks) != 1 || posted.Remarks[0] != "the status of the commit was not set: the token may not" {
		t.Errorf("posted %+v", posted)
	}
}

// noStatus is a forge whose token may not set statuses.
type noStatus struct{ *fake.Forge }

func (noStatus) SetStatus(context.Context, forge.Repo, string, forge.Status) error {
	return fault.Denied("the token may not").Named(forge.CodeDenied)
}

var _ pull.Git = (*git)(nil)
