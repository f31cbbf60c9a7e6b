package gitea

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

type review struct {
	comment
	CommitID  string `json:"commit_id"`
	Dismissed bool
}

var verdicts = map[string]forge.ReviewVerdict{
	"APPROVED": forge.Approved, "REQUEST_CHANGES": forge.ChangesRequested, "COMMENT": forge.Commented,
}

// reviews returns the submitted reviews.
func (f *Forge) reviews(ctx context.Context, r forge.Repo, number int) (all []review, err error) {
	a := forge.RESTPull(r, number, "reviews")
	a.Query = url.Values{"limit": {perPage}}
	err = forge.Pages(ctx, f.wire, a, func(page []review) bool {
		for _, v := range page {
			if verdicts[v.State] != "" { // other states are pending reviews or requests for a review
				all = append(all, v)
			}
		}
		return false
	})
	return all, err
}

// Reviews implements [forge.Reviewed]. If there are more than five hundred, the
// later ones are left out.
func (f *Forge) Reviews(ctx context.Context, r forge.Repo, number int) ([]forge.Review, error) {
	found, err := f.reviews(ctx, r, number)
	if err != nil {
		return nil, err
	}
	var all []forge.Review
	for _, v := range found {
		c := v.convert("review-")
		verdict := verdicts[v.State]
		if v.Dismissed {
			verdict = forge.Dismissed
		}
		all = append(all, forge.Review{ID: c.ID, Author: c.Author, Verdict: verdict, Body: c.Body, Commit: forge.Hash(v.CommitID), SubmittedAt: c.CreatedAt, URL: c.URL})
	}
	return forge.NewestReviews(all), nil
}

// lineComment is a comment on a line.
type lineComment struct {
	comment
	Resolver    *user
	ReviewID    int64 `json:"pull_request_review_id"`
	OldPosition int   `json:"original_position"`
}

// Threads implements [forge.Reviewed]. Gitea has no threads in its API: the
// comments of one review on one line form a thread, and the thread's id is the
// id of its first comment. It reads only the newest twenty reviews with such
// comments. Gitea does not report StartLine and Outdated, so they are empty.
func (f *Forge) Threads(ctx context.Context, r forge.Repo, number int) ([]forge.Thread, error) {
	found, err := f.reviews(ctx, r, number)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(v review) bool { return v.Comments == 0 })
	var all []forge.Thread
	for _, v := range found[max(len(found)-maxReviews, 0):] {
		var lines []lineComment
		a := forge.RESTPull(r, number, "reviews", strconv.FormatInt(v.ID, 10), "comments")
		a.Out = &lines
		if err := f.wire.Do(ctx, a); err != nil {
			return nil, err
		}
		all = append(all, threads(lines)...)
	}
	return forge.NewestThreads(all), nil
}

// threads groups the comments of a review by line.
func threads(lines []lineComment) []forge.Thread {
	slices.SortStableFunc(lines, func(a, b lineComment) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	type place struct {
		path     string
		line     int
		old      bool
		reviewID int64
	}
	at := map[place]int{}
	var all []forge.Thread
	for _, v := range lines {
		p := place{forge.Line(v.Path, 1000), v.Position, false, v.ReviewID}
		if v.Position == 0 && v.OldPosition > 0 {
			p.line, p.old = v.OldPosition, true
		}
		i, ok := at[p]
		if !ok {
			i = len(all)
			at[p] = i
			all = append(all, forge.Thread{ID: strconv.FormatInt(v.ID, 10), Path: p.path, Line: p.line, OldSide: p.old})
		}
		all[i].Resolved = all[i].Resolved || v.Resolver != nil
		all[i].Comments = append(all[i].Comments, v.convert("line-"))
	}
	return all
}

// checkThread returns an error unless the thread belongs to the pull request.
func (f *Forge) checkThread(ctx context.Context, r forge.Repo, number int, threadID string) error {
	all, err := f.Threads(ctx, r, number)
	if err == nil && !slices.ContainsFunc(all, func(t forge.Thread) bool { return t.ID == threadID }) {
		err = forge.NoThread(r, number, threadID)
	}
	return err
}

// unsupported returns the fault for a request that the API does not support.
func unsupported(r forge.Repo, what, instead string) error {
	return fault.Invalid("%s runs a version of Gitea that cannot %s by its API", r.Host, what).Named(forge.CodeUnsupported).Hint("%s", instead)
}

// Reply implements [forge.Reviewed]. Gitea's API does not support replies, at
// least up to 1.26.
func (f *Forge) Reply(ctx context.Context, r forge.Repo, number int, threadID, body string) (forge.Comment, error) {
	if err := forge.CheckComment(body); err != nil {
		return forge.Comment{}, err
	}
	if err := f.checkThread(ctx, r, number, threadID); err != nil {
		return forge.Comment{}, err
	}
	return forge.Comment{}, unsupported(r, "reply to a review thread", "comment on the pull request instead, and name the file and the line")
}

// Resolve implements [forge.Reviewed]. Gitea before 1.26 and Forgejo do not
// support it.
func (f *Forge) Resolve(ctx context.Context, r forge.Repo, number int, threadID string) error {
	if err := f.checkThread(ctx, r, number, threadID); err != nil {
		return err
	}
	err := f.wire.Do(ctx, forge.Ask{Repo: r, Method: http.MethodPost, Path: forge.RESTPath(r, "pulls", "comments", threadID, "resolve")})
	if fault.Is(err, fault.KindNotFound) || fault.Of(err).Code == forge.CodeConflict { // the API lacks this path or this method
		return unsupported(r, "resolve a review thread", "comment on the pull request instead, and ask a reviewer to resolve it")
	}
	return err
}

// MayWrite implements [forge.Access]. Gitea answers only administrators of the
// repository.
func (f *Forge) MayWrite(ctx context.Context, r forge.Repo, login string) (bool, error) {
	p, err := f.Permission(ctx, r, login)
	return slices.Contains([]string{"write", "admin", "owner"}, p), err
}

// jobPage matches the path of the page of a job of Actions.
var jobPage = regexp.MustCompile(`/actions/runs/(\d+)/jobs/(\d+)$`)

// logID returns the ids of the run and the job that a status of Actions reports,
// as run-job, or "" for another status.
func (v status) logID(r forge.Repo) string {
	page := v.TargetURL
	if u, err := url.Parse(page); err == nil {
		page = u.Path
	}
	m := jobPage.FindStringSubmatch(page)
	if m == nil || !strings.HasSuffix(strings.TrimSuffix(page, m[0]), "/"+r.Path) || v.state() == forge.Pending {
		return ""
	}
	return m[1] + "-" + m[2]
}

// Log implements [forge.Logged]. Versions before 1.26 link to the page of a job
// by the job's number in the run, so the job's id is unknown.
func (f *Forge) Log(ctx context.Context, r forge.Repo, c forge.Check) ([]byte, error) {
	run, id, _ := strings.Cut(c.LogID, "-")
	if id == "" {
		return nil, forge.NoLog(r, c)
	}
	var job struct {
		RunID int64 `json:"run_id"`
		Name  string
	}
	err := f.wire.Do(ctx, forge.Ask{Repo: r, Path: forge.RESTPath(r, "actions", "jobs", id), Out: &job})
	if fault.Is(err, fault.KindNotFound) || err == nil && (strconv.FormatInt(job.RunID, 10) != run || !strings.Contains(c.Name, forge.Line(job.Name, 200))) {
		return nil, forge.NoLog(r, c)
	}
	if err != nil {
		return nil, err
	}
	return f.wire.Tail(ctx, forge.Ask{Repo: r, Path: forge.RESTPath(r, "actions", "jobs", id, "logs")})
}
