package forgetest

import (
	"strings"
	"testing"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// threads reads a thread, replies to it and resolves it.
func threads(t *testing.T, h Host) {
	h.Push(t, "b")
	p := open(t, h, "b")
	f := h.Forge.(forge.Reviewed)
	if all, err := f.Threads(t.Context(), h.Repo, p.Number); err != nil || len(all) != 0 {
		t.Errorf("before: %+v, %v", all, err)
	}
	h.Say(t, p.Number, "Not about a line.")
	h.SayOn(t, p.Number, "file", 1, "Why **this**?")
	h.SayOn(t, p.Number, "file", 1, "And this?")
	h.SayOn(t, p.Number, "file", 1, "And that?")
	read := func() []forge.Thread {
		t.Helper()
		all, err := f.Threads(t.Context(), h.Repo, p.Number)
		if err != nil || len(all) != 3 {
			t.Fatalf("threads %+v, %v", all, err)
		}
		return all
	}
	first := read()[0]
	if first.ID == "" || first.Path != "file" || first.Line != 1 || first.Resolved || first.Outdated || first.OldSide || first.StartLine != 0 || len(first.Comments) != 1 {
		t.Fatalf("thread %+v", first)
	}
	if c := first.Comments[0]; c.ID == "" || c.Body != "Why **this**?" || c.Author == p.Author || c.Author == "" || c.CreatedAt.IsZero() || !strings.HasPrefix(c.URL, "http") {
		t.Errorf("comment %+v", c)
	}
	if c := read()[2].Comments[0]; c.Body != "And that?" {
		t.Errorf("the last comment is %+v", c)
	}
	c, err := f.Reply(t.Context(), h.Repo, p.Number, first.ID, "Because.")
	want := 2
	if h.NoReply {
		if fault.Of(err).Code != forge.CodeUnsupported || fault.Of(err).Advice == "" {
			t.Errorf("replied: %+v, %v", c, err)
		}
		want = 1
	} else if err != nil || c.Body != "Because." || c.Author != p.Author || c.ID == "" || c.CreatedAt.IsZero() {
		t.Errorf("replied: %+v, %v", c, err)
	}
	for range 2 {
		if err := f.Resolve(t.Context(), h.Repo, p.Number, first.ID); err != nil {
			t.Errorf("resolved: %v", err)
		}
	}
	all := read()
	if all[0].ID != first.ID || !all[0].Resolved || all[1].Resolved || len(all[0].Comments) != want || want == 2 && all[0].Comments[1].ID != c.ID {
		t.Errorf("after: %+v", all)
	}
	if _, err := f.Reply(t.Context(), h.Repo, p.Number, first.ID, " \n"); !fault.Is(err, fault.KindInvalid) {
		t.Errorf("replied nothing: %v", err)
	}
	said, err := h.Forge.(forge.Discussion).Comments(t.Context(), h.Repo, p.Number)
	if len(said) != 3+want || err != nil {
		t.Errorf("comments of all kinds: %+v, %v", said, err)
	}
}

// threadsOfOthers checks that the adapter rejects threads that do not belong to
// the pull request.
func threadsOfOthers(t *testing.T, h Host) {
	h.Push(t, "a")
	h.Push(t, "b")
	mine, other := open(t, h, "a"), open(t, h, "b")
	h.SayOn(t, other.Number, "file", 1, "Of the other one.")
	f := h.Forge.(forge.Reviewed)
	all, err := f.Threads(t.Context(), h.Repo, other.Number)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	for name, id := range map[string]string{"another pull request": all[0].ID, "none": "4711", "a path": "../../x", "nothing": "."} {
		if _, err := f.Reply(t.Context(), h.Repo, mine.Number, id, "x"); err == nil || fault.Is(err, fault.KindInternal) || forge.Retryable(err) {
			t.Errorf("replied to a thread of %s: %v", name, err)
		}
		if err := f.Resolve(t.Context(), h.Repo, mine.Number, id); err == nil || fault.Is(err, fault.KindInternal) || forge.Retryable(err) {
			t.Errorf("resolved a thread of %s: %v", name, err)
		}
	}
	if all, err = f.Threads(t.Context(), h.Repo, other.Number); err != nil || len(all) != 1 || all[0].Resolved || len(all[0].Comments) != 1 {
		t.Errorf("after: %+v, %v", all, err)
	}
}

// reviews reads verdicts. Some hosts keep only a verdict per person, without a
// text. Some APIs also report a group of comments on lines as a review.
func reviews(t *testing.T, h Host) {
	commit := h.Push(t, "b")
	p := open(t, h, "b")
	f := h.Forge.(forge.Reviewed)
	h.SubmitReview(t, p.Number, forge.ChangesRequested, "Not yet.")
	read := func(want forge.ReviewVerdict) forge.Review {
		t.Helper()
		all, err := f.Reviews(t.Context(), h.Repo, p.Number)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range all {
			if v.Verdict == want && v.Author != "" && v.Author != p.Author {
				return v
			}
		}
		t.Fatalf("none is %s: %+v", want, all)
		return forge.Review{}
	}
	v := read(forge.ChangesRequested)
	if v.ID == "" || v.Body != "" && v.Body != "Not yet." || v.Commit != "" && v.Commit != commit || (v.Body == "") != (v.Commit == "") {
		t.Errorf("review %+v", v)
	}
	h.SubmitReview(t, p.Number, forge.Approved, "Now it is good.")
	if again := read(forge.Approved); again.Body != "" && (again.Body != "Now it is good." || again.SubmittedAt.IsZero() || again.URL == "") {
		t.Errorf("review %+v", again)
	}
}

func mayWrite(t *testing.T, h Host) {
	f := h.Forge.(forge.Access)
	for login, want := range map[string]bool{h.Reviewer: true, "nobody-by-this-name": false} {
		if got, err := f.MayWrite(t.Context(), h.Repo, login); err != nil || got != want {
			t.Errorf("%s may write: %v, %v", login, got, err)
		}
	}
}

// logs reads the logs of checks.
func logs(t *testing.T, h Host) {
	commit := h.Push(t, "b")
	f := h.Forge.(forge.Logged)
	_, err := f.Log(t.Context(), h.Repo, forge.Check{Name: "external", URL: "https://ci.test/1"})
	if fault.Of(err).Code != forge.CodeUnsupported || !strings.Contains(fault.Of(err).Advice, "https://ci.test/1") {
		t.Errorf("the log of a check without one: %v", err)
	}
	if h.SetLog == nil {
		return
	}
	long := strings.Repeat("many lines\n", 80_000) + "the last line of the job\n"
	for name, log := range map[string]string{"test": "2026-01-02T03:04:05.1234567Z \x1b[31mFAIL\x1b[0m widget_test.go:3\r\n\xff " + Token, "build": long, "app": "## 2 findings\n"} {
		h.Check(t, commit, name, forge.Failure)
		h.SetLog(t, commit, name, log)
	}
	h.Check(t, commit, "wait", forge.Pending)
	checks, err := h.Forge.Checks(t.Context(), h.Repo, commit)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if c.Name == "wait" {
			if !c.EndedAt.IsZero() {
				t.Errorf("a running check ended at %v", c.EndedAt)
			}
			continue
		}
		log, err := f.Log(t.Context(), h.Repo, c)
		if err != nil {
			t.Errorf("the log of %s: %v", c.Name, err)
		}
		switch c.Name {
		case "test":
			if string(log) != "FAIL widget_test.go:3\n\uFFFD [token]" && string(log) != "FAIL widget_test.go:3\n\uFFFD "+Token {
				t.Errorf("log %q", log)
			}
			if h.Token != nil && strings.Contains(string(log), Token) {
				t.Errorf("the log shows the token: %q", log)
			}
		case "build":
			if len(log) > forge.MaxLog || len(log) < forge.MaxLog-100 || !strings.HasSuffix(string(log), "\nthe last line of the job\n") || !strings.HasPrefix(string(log), "many lines\n") {
				t.Errorf("%d bytes of a long log, which end in %q", len(log), log[max(len(log)-40, 0):])
			}
		case "app":
			if strings.TrimSpace(string(log)) != "## 2 findings" {
				t.Errorf("log %q", log)
			}
		}
	}
	for _, id := range []string{"..", "../1", "job-..", "run-x", "4711", "1-2"} {
		if log, err := f.Log(t.Context(), h.Repo, forge.Check{Name: "x", LogID: id}); err == nil || fault.Is(err, fault.KindInternal) {
			t.Errorf("the log with the id %s: %q, %v", id, log, err)
		}
	}
}
