package forgetest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// longDiff is a diff with lines of every kind, in a renamed file too.
const longDiff = `diff --git a/list.go b/list.go
--- a/list.go
+++ b/list.go
@@ -10,3 +10,4 @@ func Len()
 a
-b
+c
+d
 e
diff --git a/old.go b/new.go
similarity index 90%
rename from old.go
rename to new.go
--- a/old.go
+++ b/new.go
@@ -1,2 +1,2 @@
-x
+y
 z
`

// newReview returns a review with comments on line 1 of the file that Push adds.
func newReview(commit string, comments int) forge.NewReview {
	n := forge.NewReview{Commit: commit, Body: "I have **found** something.", Mark: forge.Mark("review R" + commit[:8])}
	for i := range comments {
		n.Comments = append(n.Comments, forge.LineComment{Path: "file", OldPath: "file", StartLine: 1, Line: 1,
			Body: fmt.Sprintf("**High: finding %d**\n\nIt ends ``` a block.", i), Suggestion: "a\n```\nb\n", Mark: forge.Mark(fmt.Sprintf("finding F%d-%.8s", i, commit))})
	}
	return n
}

// checkPosted checks that the pull request contains the review and each of its
// comments exactly once.
func checkPosted(t *testing.T, h Host, number int, n forge.NewReview) []forge.Thread {
	t.Helper()
	all, err := h.Forge.(forge.Discussion).Comments(t.Context(), h.Repo, number)
	if err != nil {
		t.Fatal(err)
	}
	count := func(mark string) (times int) {
		for _, c := range all {
			times += strings.Count(c.Body, mark)
		}
		return times
	}
	if got := count(n.Mark); got != 1 {
		t.Errorf("the review is there %d times", got)
	}
	for _, c := range n.Comments {
		if got := count(c.Mark); got != 1 {
			t.Errorf("the comment %q is there %d times", c.Mark, got)
		}
	}
	threads, err := h.Forge.(forge.Reviewed).Threads(t.Context(), h.Repo, number)
	if err != nil {
		t.Fatal(err)
	}
	return threads
}

func postReview(t *testing.T, h Host) {
	commit := h.Push(t, "b")
	p := open(t, h, "b")
	f := h.Forge.(forge.Posting)
	n := newReview(commit, 1)
	first, err := f.PostReview(t.Context(), h.Repo, p.Number, n)
	if err != nil || first.ID == "" || !strings.HasPrefix(first.URL, "http") || !strings.Contains(first.Body, n.Mark) {
		t.Fatalf("posted %+v, %v", first, err)
	}
	again, err := f.PostReview(t.Context(), h.Repo, p.Number, n)
	if err != nil || again.ID != first.ID {
		t.Errorf("posted again: %+v, %v", again, err)
	}
	threads := checkPosted(t, h, p.Number, n)
	if len(threads) != 1 || threads[0].Path != "file" || threads[0].Line != 1 || threads[0].Resolved || threads[0].Outdated || len(threads[0].Comments) != 1 {
		t.Fatalf("threads %+v", threads)
	}
	body := threads[0].Comments[0].Body
	if !strings.Contains(body, "**High: finding 0**") || !strings.Contains(body, "\n````suggestion") || !strings.Contains(body, "\na\n```\nb\n````\n") {
		t.Errorf("the comment is %q", body)
	}
	if err := h.Forge.(forge.Reviewed).Resolve(t.Context(), h.Repo, p.Number, threads[0].ID); err != nil {
		t.Errorf("its thread cannot be resolved: %v", err)
	}
	reviews, err := h.Forge.(forge.Reviewed).Reviews(t.Context(), h.Repo, p.Number)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range reviews { // the host may not report reviews without a verdict
		if strings.Contains(v.Body, n.Mark) && (v.Commit != commit || v.Verdict != forge.Commented) {
			t.Errorf("review %+v", v)
		}
	}
	// A second review of the same commit must be posted separately.
	other := forge.NewReview{Commit: commit, Body: "Nothing was found.", Mark: forge.Mark("review another")}
	if second, err := f.PostReview(t.Context(), h.Repo, p.Number, other); err != nil || second.ID == first.ID {
		t.Errorf("posted another: %+v, %v", second, err)
	}
	checkPosted(t, h, p.Number, n)
	for name, bad := range map[string]forge.NewReview{
		"no text": {Commit: commit, Mark: forge.Mark("x")}, "no mark": {Commit: commit, Body: "x"}, "no commit": {Commit: "main", Body: "x", Mark: forge.Mark("x")},
		"no line": {Commit: commit, Body: "x", Mark: forge.Mark("x"), Comments: []forge.LineComment{{Path: "file", Body: "x", Mark: forge.Mark("y")}}},
	} {
		if _, err := f.PostReview(t.Context(), h.Repo, p.Number, bad); fault.Of(err).Code != forge.CodeRefused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.PostReview(t.Context(), h.Repo, 4711, n); fault.Of(err).Code != forge.CodeNotFound {
		t.Errorf("of a pull request that does not exist: %v", err)
	}
}

// postOnNoLine posts a comment on a line that the pull request does not change.
// The host must either reject the review or show the comment.
func postOnNoLine(t *testing.T, h Host) {
	commit := h.Push(t, "b")
	p := open(t, h, "b")
	n := newReview(commit, 1)
	n.Comments[0].StartLine, n.Comments[0].Line = 700, 700
	n.Comments[0].Mark = forge.Mark("finding on no line")
	_, err := h.Forge.(forge.Posting).PostReview(t.Context(), h.Repo, p.Number, n)
	if err == nil {
		checkPosted(t, h, p.Number, n)
	} else if fault.Of(err).Code != forge.CodeRefused {
		t.Errorf("got %v", err)
	}
	// The rejected review must not prevent another review.
	n = newReview(commit, 1)
	n.Mark = forge.Mark("review on a line")
	if _, err := h.Forge.(forge.Posting).PostReview(t.Context(), h.Repo, p.Number, n); err != nil {
		t.Error(err)
	}
}

func setStatus(t *testing.T, h Host) {
	commit := h.Push(t, "b")
	f := h.Forge.(forge.Posting)
	for _, want := range []forge.CheckState{forge.Pending, forge.Pending, forge.Success, forge.Success, forge.Failure, forge.Failure, forge.Neutral} {
		s := forge.Status{Name: "lint/review", State: want, Summary: strings.Repeat("ä", 200), URL: "https://aloft.test/agents/1"}
		if err := f.SetStatus(t.Context(), h.Repo, commit, s); err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		if want == forge.Neutral {
			want = forge.Success
		}
		all, err := h.Forge.Checks(t.Context(), h.Repo, commit)
		if err != nil || len(all) != 1 || all[0].Name != s.Name || all[0].State != want {
			t.Errorf("%s: checks %+v, %v", want, all, err)
		}
	}
}

// dieWhilePosting makes the host die before each comment, and before the review
// is complete.
func dieWhilePosting(t *testing.T, s *Server, h Host) {
	commit := h.Push(t, "b")
	p := open(t, h, "b")
	for at := 1; at <= 4; at++ {
		n := newReview(commit, 3)
		n.Mark = forge.Mark(fmt.Sprintf("review at %d", at))
		for i := range n.Comments {
			n.Comments[i].Mark = forge.Mark(fmt.Sprintf("finding at %d-%d", at, i))
		}
		before, err := h.Forge.(forge.Discussion).Comments(t.Context(), h.Repo, p.Number)
		if err != nil {
			t.Fatal(err)
		}
		die := at
		if s.dialect.path == "/api/v4" { // for GitLab, count discussions and notes since the beginning
			die += len(before)
		}
		s.DieAt(die)
		_, err = h.Forge.(forge.Posting).PostReview(t.Context(), h.Repo, p.Number, n)
		if died := s.dialect.path == "/api/v1" || at == 1 || s.dialect.path == "/api/v4" && at <= 3; died != forge.Retryable(err) {
			t.Fatalf("the host died at %d: %v", at, err)
		}
		s.DieAt(0)
		if _, err := h.Forge.(forge.Posting).PostReview(t.Context(), h.Repo, p.Number, n); err != nil {
			t.Fatalf("after it died at %d: %v", at, err)
		}
		checkPosted(t, h, p.Number, n)
	}
}

// dropReviewReply loses the response to a review's last request.
func dropReviewReply(t *testing.T, s *Server, h Host) {
	commit := h.Push(t, "b")
	p := open(t, h, "b")
	s.Requests()
	if _, err := h.Forge.(forge.Posting).PostReview(t.Context(), h.Repo, p.Number, newReview(commit, 2)); err != nil {
		t.Fatal(err)
	}
	requests := len(s.Requests())
	n := newReview(commit, 2)
	n.Mark = forge.Mark("review again")
	for i := range n.Comments {
		n.Comments[i].Mark = forge.Mark(fmt.Sprintf("finding again %d", i))
	}
	// The lists have more pages than before, so find the last request by trying.
	for skip := requests - 1; ; skip++ {
		for range skip {
			s.Next(s.mux.ServeHTTP)
		}
		s.Next(func(_ http.ResponseWriter, r *http.Request) {
			s.mux.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		})
		_, err := h.Forge.(forge.Posting).PostReview(t.Context(), h.Repo, p.Number, n)
		s.mu.Lock()
		s.canned = nil
		s.mu.Unlock()
		checkAtMostOnce(t, h, p.Number, n)
		if err == nil {
			break
		}
	}
	checkPosted(t, h, p.Number, n)
}

func checkAtMostOnce(t *testing.T, h Host, number int, n forge.NewReview) {
	t.Helper()
	all, err := h.Forge.(forge.Discussion).Comments(t.Context(), h.Repo, number)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, c := range all {
		text += c.Body
	}
	for _, c := range append(n.Comments, forge.LineComment{Mark: n.Mark}) {
		if strings.Count(text, c.Mark) > 1 {
			t.Fatalf("%s is there %d times", c.Mark, strings.Count(text, c.Mark))
		}
	}
}

// personReviews posts while a person with the same token prepares a review,
// whose comments must not change.
func personReviews(t *testing.T, s *Server, h Host) {
	commit := h.Push(t, "b")
	p := open(t, h, "b")
	s.StartReview(p.Number, "Not ready yet.")
	_, err := h.Forge.(forge.Posting).PostReview(t.Context(), h.Repo, p.Number, newReview(commit, 1))
	if s.dialect.path == "/api/v4" { // GitLab's drafts do not affect other comments
		if err != nil {
			t.Error(err)
		}
	} else if fault.Of(err).Code != forge.CodeRefused {
		t.Errorf("got %v", err)
	}
	if left := s.pendingOf(p.Number); len(left) != 1 {
		t.Errorf("the person's review has %d comments", len(left))
	}
	all, err := h.Forge.(forge.Discussion).Comments(t.Context(), h.Repo, p.Number)
	for _, c := range all {
		if strings.Contains(c.Body, "Not ready yet.") || err != nil {
			t.Errorf("it was published: %+v, %v", c, err)
		}
	}
}

// allLines comments on lines of every kind.
func allLines(t *testing.T, s *Server, h Host) {
	commit := h.Push(t, "b")
	p := open(t, h, "b")
	s.Fake.SetDiff(h.Repo, p.Number, longDiff)
	n := newReview(commit, 0)
	for i, c := range []forge.LineComment{
		{Path: "list.go", OldPath: "list.go", StartLine: 11, Line: 12, Suggestion: "x\n"},
		{Path: "list.go", OldPath: "list.go", StartLine: 13, Line: 13, OtherLine: 12},
		{Path: "list.go", OldPath: "list.go", StartLine: 11, Line: 11, OldSide: true},
		{Path: "new.go", OldPath: "old.go", StartLine: 1, Line: 1},
		{Path: "new.go", OldPath: "old.go", StartLine: 2, Line: 2, OtherLine: 2},
	} {
		c.Body, c.Mark = "It is wrong.", forge.Mark(fmt.Sprintf("finding L%d", i))
		n.Comments = append(n.Comments, c)
	}
	if _, err := h.Forge.(forge.Posting).PostReview(t.Context(), h.Repo, p.Number, n); err != nil {
		t.Fatal(err)
	}
	threads := checkPosted(t, h, p.Number, n)
	if len(threads) != len(n.Comments) {
		t.Fatalf("%d threads: %+v", len(threads), threads)
	}
	for i, c := range n.Comments {
		if got := threads[i]; got.Path != c.Path || got.Line != c.Line || got.OldSide != c.OldSide {
			t.Errorf("comment %d is at %+v", i, got)
		}
	}
	want := map[string]string{"": "start_line", "/api/v1": "Lines 11 to 12:", "/api/v4": "```suggestion:-1+0\nx\n```"}[s.dialect.path]
	if body := threads[0].Comments[0].Body; want != "start_line" && !strings.Contains(body, want) || want == "start_line" && threads[0].StartLine != 11 {
		t.Errorf("of several lines: %q, want %q", body, want)
	}
}

func unknownCommit(t *testing.T, _ *Server, h Host) {
	h.Push(t, "b")
	p := open(t, h, "b")
	n := newReview(strings.Repeat("1", 40), 1)
	if _, err := h.Forge.(forge.Posting).PostReview(t.Context(), h.Repo, p.Number, n); fault.Of(err).Code != forge.CodeRefused {
		t.Errorf("got %v", err)
	}
}
