package gitlab

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// discussion is a note and its replies.
type discussion struct {
	ID    string
	Notes []note
}

// convert returns a discussion of lines, or of a file, as a thread.
func (v discussion) convert(p forge.PullRequest) (forge.Thread, bool) {
	if len(v.Notes) == 0 || v.Notes[0].System || v.Notes[0].Position == nil {
		return forge.Thread{}, false
	}
	at := v.Notes[0].Position
	t := forge.Thread{ID: forge.Line(v.ID, 200), Path: forge.Line(cmp.Or(at.NewPath, at.OldPath), 1000), Line: at.NewLine,
		Outdated: at.HeadSHA != "" && p.HeadCommit != "" && at.HeadSHA != p.HeadCommit, Resolved: true}
	if at.NewLine == 0 && at.OldLine > 0 {
		t.Line, t.OldSide = at.OldLine, true
	}
	if first := at.LineRange.Start.NewLine; first > 0 && first < t.Line && !t.OldSide {
		t.StartLine = first
	}
	for _, n := range v.Notes {
		if n.System {
			continue
		}
		if n.Resolvable && !n.Resolved {
			t.Resolved = false
		}
		t.Comments = append(t.Comments, n.convert(p.URL))
	}
	return t, true
}

// Threads implements [forge.Reviewed]. After later pushes, GitLab updates the
// line of a thread if it can. Outdated means only that the thread was started
// on an earlier commit.
func (f *Forge) Threads(ctx context.Context, r forge.Repo, number int) ([]forge.Thread, error) {
	p, err := f.Get(ctx, r, number)
	if err != nil {
		return nil, err
	}
	var all []forge.Thread
	a := mergeRequestAsk(r, number, "discussions")
	a.Query = url.Values{"per_page": {perPage}}
	err = forge.AllPages(ctx, f.wire, a, func(page []discussion) {
		for _, v := range page {
			if t, ok := v.convert(p); ok {
				all = append(all, t)
			}
		}
	})
	return forge.NewestThreads(all), err
}

// Reply implements [forge.Reviewed].
func (f *Forge) Reply(ctx context.Context, r forge.Repo, number int, threadID, body string) (forge.Comment, error) {
	if err := forge.CheckComment(body); err != nil {
		return forge.Comment{}, err
	}
	p, err := f.Get(ctx, r, number)
	if err != nil {
		return forge.Comment{}, err
	}
	c, err := f.addNote(ctx, mergeRequestAsk(r, number, "discussions", threadID, "notes"), p.URL, body)
	return c, noThread(err, r, number, threadID)
}

// Resolve implements [forge.Reviewed].
func (f *Forge) Resolve(ctx context.Context, r forge.Repo, number int, threadID string) error {
	a := mergeRequestAsk(r, number, "discussions", threadID)
	a.Method, a.In = http.MethodPut, map[string]any{"resolved": true}
	return noThread(f.wire.Do(ctx, a), r, number, threadID)
}

// noThread replaces the fault for a thread that was not found.
func noThread(err error, r forge.Repo, number int, threadID string) error {
	if fault.Is(err, fault.KindNotFound) {
		return forge.NoThread(r, number, threadID)
	}
	return err
}

// Reviews implements [forge.Reviewed]. GitLab keeps only the latest verdict of
// each person, without a text or a commit. The texts of reviewers are comments.
func (f *Forge) Reviews(ctx context.Context, r forge.Repo, number int) ([]forge.Review, error) {
	var reviewers []struct {
		User      user
		State     string
		CreatedAt time.Time `json:"created_at"` // time of the request for the review
	}
	a := mergeRequestAsk(r, number, "reviewers")
	a.Out = &reviewers
	if err := f.wire.Do(ctx, a); err != nil {
		return nil, err
	}
	var approvals struct {
		ApprovedBy []struct {
			User       user
			ApprovedAt time.Time `json:"approved_at"`
		} `json:"approved_by"`
	}
	a = mergeRequestAsk(r, number, "approvals")
	a.Out = &approvals
	if err := f.wire.Do(ctx, a); err != nil {
		return nil, err
	}
	var all []forge.Review
	add := func(u user, v forge.ReviewVerdict, at time.Time) {
		all = append(all, forge.Review{ID: "user-" + strconv.FormatInt(u.ID, 10), Author: forge.Line(u.Username, 100), Verdict: v, SubmittedAt: at})
	}
	for _, v := range approvals.ApprovedBy {
		add(v.User, forge.Approved, v.ApprovedAt)
	}
	for _, v := range reviewers {
		switch v.State {
		case "requested_changes":
			add(v.User, forge.ChangesRequested, time.Time{})
		case "reviewed":
			add(v.User, forge.Commented, time.Time{})
		}
	}
	return forge.NewestReviews(all), nil
}

// developer is the lowest access level that may push.
const developer = 30

// MayWrite implements [forge.Access].
func (f *Forge) MayWrite(ctx context.Context, r forge.Repo, login string) (bool, error) {
	type member struct {
		Username, State string
		AccessLevel     int `json:"access_level"`
	}
	may := false
	err := forge.Pages(ctx, f.wire, forge.Ask{Repo: r, Path: path(r, "members", "all"), Query: url.Values{"query": {login}, "per_page": {perPage}}},
		func(page []member) bool {
			for _, m := range page {
				may = may || strings.EqualFold(m.Username, login) && m.State == "active" && m.AccessLevel >= developer
			}
			return may
		})
	return may && err == nil, err
}

// Log implements [forge.Logged].
func (f *Forge) Log(ctx context.Context, r forge.Repo, c forge.Check) ([]byte, error) {
	if _, err := strconv.ParseUint(c.LogID, 10, 63); err != nil {
		return nil, forge.NoLog(r, c)
	}
	log, err := f.wire.Tail(ctx, forge.Ask{Repo: r, Path: path(r, "jobs", c.LogID, "trace")})
	if fault.Is(err, fault.KindNotFound) { // a status that another system reported
		return nil, forge.NoLog(r, c)
	}
	return log, err
}
