// Package forgetest has the test suite for forges, and servers that behave like
// GitHub, GitLab and Gitea, and are as strict.
package forgetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// Host describes a forge with a repository, for one test of [Run].
type Host struct {
	Forge forge.Forge
	Repo  forge.Repo // contains only its default branch, main, with one commit
	// Push adds a commit to a branch, and returns the commit's id. It creates
	// the branch from main if necessary.
	Push func(t testing.TB, branch string) string
	// Check sets a check of a commit. States are pending, success and failure.
	Check func(t testing.TB, commit, name string, s forge.CheckState)
	// Say adds a comment by another user.
	Say func(t testing.TB, number int, body string)
	// OpenIssue opens an issue as another user, and returns its number.
	OpenIssue func(t testing.TB, title, body string) int
	// SayAtIssue adds a comment by another user to an issue.
	SayAtIssue func(t testing.TB, number int, body string)
	// SayOn adds a thread by another user about a line of a file.
	SayOn func(t testing.TB, number int, path string, line int, body string)
	// SubmitReview adds a review by another user.
	SubmitReview func(t testing.TB, number int, verdict forge.ReviewVerdict, body string)
	// SetLog sets the log of a check; nil if the test cannot.
	SetLog func(t testing.TB, commit, check, log string)
	// NoReply is set if the host's threads accept no replies.
	NoReply bool
	// Add creates another repository that the token can access; nil if the test
	// cannot.
	Add func(t testing.TB, path string)
	// Reviewer is a user whom the forge can ask for a review.
	Reviewer string
	// Token returns the same forge with another token; nil if the forge has no
	// tokens.
	Token func(t testing.TB, token string) forge.Forge
}

// Run checks that a forge behaves as [forge.Forge] and the other interfaces
// specify.
func Run(t *testing.T, host func(t *testing.T) Host) {
	for name, test := range map[string]func(*testing.T, Host){
		"OpenAgainGivesTheSame": openAgain, "OpenAfterCloseOpensAnother": openAfterClose, "DraftsAndLongTexts": texts,
		"Update": update, "FindKnowsTheBranch": find, "DefaultBranch": defaultBranch, "Checks": checks, "ManyChecks": manyChecks,
		"Discussion": discussion, "Issues": issues, "PullRequestIsNoIssue": pullIsNoIssue, "Review": review,
		"WhatIsNotThere": notThere, "WhatCannotBe": cannotBe, "TokensAreNotTold": tokens, "ContextEnds": contextEnds,
		"ManyOpenAtOnce": atOnce, "Repositories": repositories, "Threads": threads, "ThreadsOfOthers": threadsOfOthers, "Reviews": reviews,
		"MayWrite": mayWrite, "Logs": logs, "PostReview": postReview, "PostOnNoLine": postOnNoLine, "SetStatus": setStatus,
	} {
		t.Run(name, func(t *testing.T) { test(t, host(t)) })
	}
}

func open(t *testing.T, h Host, head string) forge.PullRequest {
	t.Helper()
	p, err := h.Forge.Open(t.Context(), forge.NewPullRequest{Repo: h.Repo, Head: head, Base: "main", Title: "Mend " + head, Body: "What was *wrong*.\n"})
	if err != nil || p.Head != head {
		t.Fatalf("opened %+v from %s, %v", p, head, err)
	}
	return p
}

func openAgain(t *testing.T, h Host) {
	commit := h.Push(t, "aloft/mend-1")
	p := open(t, h, "aloft/mend-1")
	want := forge.PullRequest{Repo: h.Repo, HeadRepo: h.Repo, Number: p.Number, URL: p.URL, Title: "Mend aloft/mend-1", Body: "What was *wrong*.\n",
		Author: p.Author, Head: "aloft/mend-1", HeadCommit: commit, Base: "main", State: forge.Open}
	p.Body = strings.TrimRight(p.Body, "\n") + "\n" // a host may trim white space
	if p != want {
		t.Errorf("opened %+v\nwant   %+v", p, want)
	}
	if p.Number < 1 || p.Author == "" {
		t.Errorf("number %d by %q", p.Number, p.Author)
	}
	if r, n, err := forge.ParsePullRequestURL(p.URL); err != nil || r.Path != h.Repo.Path || n != p.Number {
		t.Errorf("its URL %q is read as %v %d, %v", p.URL, r, n, err)
	}
	again, err := h.Forge.Open(t.Context(), forge.NewPullRequest{Repo: h.Repo, Head: "aloft/mend-1", Base: "main", Title: "Another title"})
	if err != nil || again.Number != p.Number || again.Title != p.Title {
		t.Errorf("opened again: %+v, %v", again, err)
	}
	got, err := h.Forge.Get(t.Context(), h.Repo, p.Number)
	got.Body = strings.TrimRight(got.Body, "\n") + "\n"
	if err != nil || got != want {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

func openAfterClose(t *testing.T, h Host) {
	h.Push(t, "b")
	p := open(t, h, "b")
	closed, err := h.Forge.Update(t.Context(), h.Repo, p.Number, forge.Change{State: new(forge.Closed)})
	if err != nil || closed.State != forge.Closed {
		t.Fatalf("closed: %+v, %v", closed, err)
	}
	q := open(t, h, "b")
	if q.Number == p.Number || q.State != forge.Open {
		t.Errorf("opened %+v after %d was closed", q, p.Number)
	}
	found, err := h.Forge.Find(t.Context(), h.Repo, "b")
	if err != nil || len(found) != 2 || found[0].Number != q.Number || found[1].State != forge.Closed {
		t.Errorf("found %+v, %v", found, err)
	}
}

func texts(t *testing.T, h Host) {
	h.Push(t, "b")
	p, err := h.Forge.Open(t.Context(), forge.NewPullRequest{Repo: h.Repo, Head: "b", Base: "main", Draft: true,
		Title: "Ein Häkchen:\n" + strings.Repeat("ä", 400), Body: strings.Repeat("Größe. ", 200_000)})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Draft || !strings.HasPrefix(p.Title, "Ein Häkchen: ää") || !strings.HasSuffix(p.Title, "ä…") || strings.ContainsRune(p.Title, '\uFFFD') {
		t.Errorf("draft %v with the title %q", p.Draft, p.Title)
	}
	if len(p.Body) < 60_000 || len(p.Body) > forge.MaxBody || !strings.HasSuffix(p.Body, "…") {
		t.Errorf("a body of %d bytes, which ends in %q", len(p.Body), p.Body[max(len(p.Body)-20, 0):])
	}
	// Changing the title of a draft keeps it a draft.
	if p, err = h.Forge.Update(t.Context(), h.Repo, p.Number, forge.Change{Title: new("Short")}); err != nil || !p.Draft || p.Title != "Short" {
		t.Errorf("after the title: %+v, %v", p, err)
	}
}

func update(t *testing.T, h Host) {
	h.Push(t, "b")
	p := open(t, h, "b")
	p, err := h.Forge.Update(t.Context(), h.Repo, p.Number, forge.Change{Body: new("Other words")})
	if err != nil || p.Title != "Mend b" || p.Body != "Other words" {
		t.Errorf("after the body: %+v, %v", p, err)
	}
	p, err = h.Forge.Update(t.Context(), h.Repo, p.Number, forge.Change{Title: new(" Two\nlines "), Body: new("")})
	if err != nil || p.Title != "Two lines" || p.Body != "" || p.State != forge.Open || p.Draft {
		t.Errorf("after title and body: %+v, %v", p, err)
	}
	for _, state := range []forge.State{forge.Closed, forge.Closed, forge.Open, forge.Open} { // each state is set twice
		if p, err = h.Forge.Update(t.Context(), h.Repo, p.Number, forge.Change{State: &state}); err != nil || p.State != state {
			t.Errorf("made %s: %+v, %v", state, p, err)
		}
	}
	if p, err = h.Forge.Update(t.Context(), h.Repo, p.Number, forge.Change{}); err != nil || p.Title != "Two lines" {
		t.Errorf("after nothing: %+v, %v", p, err)
	}
}

func find(t *testing.T, h Host) {
	h.Push(t, "a/b")
	h.Push(t, "a/b-2")
	if found, err := h.Forge.Find(t.Context(), h.Repo, "a/b"); err != nil || len(found) != 0 {
		t.Errorf("before: %+v, %v", found, err)
	}
	p := open(t, h, "a/b")
	open(t, h, "a/b-2")
	found, err := h.Forge.Find(t.Context(), h.Repo, "a/b")
	if err != nil || len(found) != 1 || found[0] != p {
		t.Errorf("found %+v, %v\nwant  %+v", found, err, p)
	}
	// Later pushes are visible.
	commit := h.Push(t, "a/b")
	eventually(t, "the new commit", func() bool {
		p, err := h.Forge.Get(t.Context(), h.Repo, p.Number)
		return err == nil && p.HeadCommit == commit
	})
}

func defaultBranch(t *testing.T, h Host) {
	if b, err := h.Forge.DefaultBranch(t.Context(), h.Repo); err != nil || b != "main" {
		t.Errorf("the default branch is %q, %v", b, err)
	}
}

func checks(t *testing.T, h Host) {
	commit := h.Push(t, "b")
	got, err := h.Forge.Checks(t.Context(), h.Repo, commit)
	if err != nil || len(got) != 0 || forge.Verdict(got) != "" {
		t.Errorf("before: %+v, %v", got, err)
	}
	h.Check(t, commit, "lint", forge.Pending)
	h.Check(t, commit, "build", forge.Success)
	h.Check(t, commit, "test", forge.Pending)
	h.Check(t, commit, "lint", forge.Success)
	want := map[string]forge.CheckState{"build": forge.Success, "lint": forge.Success, "test": forge.Pending}
	said := func() forge.CheckState {
		t.Helper()
		got, err = h.Forge.Checks(t.Context(), h.Repo, commit)
		names := []string{}
		for _, c := range got {
			names = append(names, c.Name)
			if c.State != want[c.Name] {
				t.Errorf("%s is %s, want %s", c.Name, c.State, want[c.Name])
			}
		}
		if err != nil || !slices.Equal(names, []string{"build", "lint", "test"}) {
			t.Errorf("checks %q, %v", names, err)
		}
		return forge.Verdict(got)
	}
	if v := said(); v != forge.Pending {
		t.Errorf("all together are %s", v)
	}
	h.Check(t, commit, "test", forge.Failure)
	want["test"] = forge.Failure
	if v := said(); v != forge.Failure {
		t.Errorf("all together are %s", v)
	}
}

// manyChecks sets more checks than fit on a page of any host. The last one
// determines the verdict.
func manyChecks(t *testing.T, h Host) {
	const n = 130
	commit := h.Push(t, "b")
	for i := range n {
		h.Check(t, commit, fmt.Sprintf("job %03d", i), forge.Success)
	}
	for _, last := range []string{"lint 2", "zz"} { // GitHub keeps check runs and statuses apart
		h.Check(t, commit, last, forge.Failure)
		got, err := h.Forge.Checks(t.Context(), h.Repo, commit)
		if err != nil || len(got) < n+1 || forge.Verdict(got) != forge.Failure {
			t.Errorf("%s failed: %d checks, which say %q, %v", last, len(got), forge.Verdict(got), err)
		}
		h.Check(t, commit, last, forge.Success)
	}
	for i := range 4 {
		h.Check(t, commit, fmt.Sprintf("lint %d", i), forge.Success)
	}
	got, err := h.Forge.Checks(t.Context(), h.Repo, commit)
	if err != nil || len(got) != n+5 || forge.Verdict(got) != forge.Success {
		t.Errorf("%d checks, which say %q, %v", len(got), forge.Verdict(got), err)
	}
}

func discussion(t *testing.T, h Host) {
	h.Push(t, "b")
	p := open(t, h, "b")
	d := h.Forge.(forge.Discussion)
	if all, err := d.Comments(t.Context(), h.Repo, p.Number); err != nil || len(all) != 0 {
		t.Errorf("before: %+v, %v", all, err)
	}
	c, err := d.Comment(t.Context(), h.Repo, p.Number, "I have **done** it.")
	if err != nil || c.ID == "" || c.Body != "I have **done** it." || c.Author != p.Author || c.CreatedAt.IsZero() {
		t.Errorf("said %+v, %v", c, err)
	}
	h.Say(t, p.Number, "Have you?")
	all, err := d.Comments(t.Context(), h.Repo, p.Number)
	if err != nil || len(all) != 2 || all[0].ID != c.ID || all[0].Body != c.Body || all[1].Body != "Have you?" || all[1].Author == p.Author {
		t.Errorf("said: %+v, %v", all, err)
	}
	if _, err := d.Comment(t.Context(), h.Repo, p.Number, " \n"); !fault.Is(err, fault.KindInvalid) {
		t.Errorf("said nothing: %v", err)
	}
}

func review(t *testing.T, h Host) {
	h.Push(t, "b")
	p := open(t, h, "b")
	for range 2 {
		if err := h.Forge.(forge.Reviewing).RequestReview(t.Context(), h.Repo, p.Number, []string{h.Reviewer}); err != nil {
			t.Error(err)
		}
	}
	if err := h.Forge.(forge.Reviewing).RequestReview(t.Context(), h.Repo, p.Number, nil); err != nil {
		t.Error(err)
	}
	if err := h.Forge.(forge.Reviewing).RequestReview(t.Context(), h.Repo, p.Number, []string{"nobody-by-this-name"}); err == nil || fault.Is(err, fault.KindInternal) {
		t.Errorf("somebody unknown: %v", err)
	}
}

func notThere(t *testing.T, h Host) {
	h.Push(t, "b")
	gone := forge.Repo{Host: h.Repo.Host, Path: h.Repo.Path + "-that-is-not"}
	ctx, text := t.Context(), "x"
	for name, call := range map[string]func() error{
		"Open":          func() error { _, err := h.Forge.Open(ctx, newPull(gone, "b", "main")); return err },
		"Get":           func() error { _, err := h.Forge.Get(ctx, h.Repo, 4711); return err },
		"GetZero":       func() error { _, err := h.Forge.Get(ctx, h.Repo, 0); return err },
		"GetElsewhere":  func() error { _, err := h.Forge.Get(ctx, gone, 1); return err },
		"Update":        func() error { _, err := h.Forge.Update(ctx, h.Repo, 4711, forge.Change{Body: &text}); return err },
		"Find":          func() error { _, err := h.Forge.Find(ctx, gone, "b"); return err },
		"DefaultBranch": func() error { _, err := h.Forge.DefaultBranch(ctx, gone); return err },
		"Comments":      func() error { _, err := h.Forge.(forge.Discussion).Comments(ctx, h.Repo, 4711); return err },
		"Comment":       func() error { _, err := h.Forge.(forge.Discussion).Comment(ctx, h.Repo, 4711, text); return err },
		"Threads":       func() error { _, err := h.Forge.(forge.Reviewed).Threads(ctx, h.Repo, 4711); return err },
		"Reviews":       func() error { _, err := h.Forge.(forge.Reviewed).Reviews(ctx, h.Repo, 4711); return err },
		"Reply":         func() error { _, err := h.Forge.(forge.Reviewed).Reply(ctx, h.Repo, 4711, "1", text); return err },
		"Resolve":       func() error { return h.Forge.(forge.Reviewed).Resolve(ctx, h.Repo, 4711, "1") },
		"MayWrite":      func() error { _, err := h.Forge.(forge.Access).MayWrite(ctx, gone, "ada"); return err },
	} {
		if err := call(); fault.Of(err).Code != forge.CodeNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func newPull(r forge.Repo, head, base string) forge.NewPullRequest {
	return forge.NewPullRequest{Repo: r, Head: head, Base: base, Title: "A title"}
}

func cannotBe(t *testing.T, h Host) {
	h.Push(t, "b")
	noTitle := newPull(h.Repo, "b", "main")
	noTitle.Title = "\n"
	for name, n := range map[string]forge.NewPullRequest{
		"no such head": newPull(h.Repo, "absent", "main"), "no such base": newPull(h.Repo, "b", "absent"),
		"to itself": newPull(h.Repo, "main", "main"), "no title": noTitle, "no head": newPull(h.Repo, "", "main"),
		"a fork's": newPull(h.Repo, "mallory:b", "main"), "no repository": newPull(forge.Repo{Host: h.Repo.Host, Path: "a/../b"}, "b", "main"),
	} {
		_, err := h.Forge.Open(t.Context(), n)
		if f := fault.Of(err); err == nil || f.Kind == fault.KindInternal || forge.Retryable(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if found, err := h.Forge.Find(t.Context(), h.Repo, "b"); err != nil || len(found) != 0 {
		t.Errorf("there is %+v, %v", found, err)
	}
}

func tokens(t *testing.T, h Host) {
	if h.Token == nil {
		return // the test requested no review
	}
	const secret = "t0ken-that-is-wrong/+="
	_, err := h.Token(t, secret).DefaultBranch(t.Context(), h.Repo)
	if fault.Of(err).Code != forge.CodeUnauthorized || strings.Contains(err.Error(), secret) || fault.Of(err).Advice == "" {
		t.Errorf("with a wrong token: %v", err)
	}
	if _, err = h.Token(t, "").DefaultBranch(t.Context(), h.Repo); fault.Of(err).Code != forge.CodeNoToken || fault.Of(err).Advice == "" {
		t.Errorf("without a token: %v", err)
	}
}

func contextEnds(t *testing.T, h Host) {
	why := errors.New("the user stopped it")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := h.Forge.Get(ctx, h.Repo, 1); !errors.Is(err, why) {
		t.Errorf("after the end: %v", err)
	}
}

func atOnce(t *testing.T, h Host) {
	h.Push(t, "b")
	numbers := make(chan int, 4)
	for range cap(numbers) {
		go func() {
			p, err := h.Forge.Open(t.Context(), newPull(h.Repo, "b", "main"))
			if err != nil {
				t.Error(err)
			}
			numbers <- p.Number
		}()
	}
	first := <-numbers
	for range cap(numbers) - 1 {
		if n := <-numbers; n != first {
			t.Errorf("opened %d and %d", first, n)
		}
	}
}
