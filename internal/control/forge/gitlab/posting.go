package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// version is a state of a merge request's diff.
type version struct {
	Base  string `json:"base_commit_sha"`
	Start string `json:"start_commit_sha"`
	Head  string `json:"head_commit_sha"`
}

// versionOf returns the version of the diff whose last commit is commit.
func (f *Forge) versionOf(ctx context.Context, r forge.Repo, number int, commit string) (found version, err error) {
	a := mergeRequestAsk(r, number, "versions")
	a.Query = url.Values{"per_page": {perPage}}
	err = forge.AllPages(ctx, f.wire, a, func(page []version) {
		for _, v := range page {
			if v.Head == commit && found.Head == "" {
				found = v
			}
		}
	})
	if err == nil && found.Head == "" {
		err = fault.Invalid("%s!%d has no version at the commit %s", r.Path, number, commit).Named(forge.CodeRefused)
	}
	return found, err
}

// PostReview implements [forge.Posting]. GitLab's API supports reviews only as
// draft notes, and publishing them would include the drafts of a person with
// the same token. So PostReview adds each comment as a discussion, and then the
// body as a note. If GitLab rejects the lines of a comment, its discussion has
// no lines.
func (f *Forge) PostReview(ctx context.Context, r forge.Repo, number int, n forge.NewReview) (forge.Comment, error) {
	if c, posted, err := forge.CheckReview(ctx, f, r, number, n); posted || err != nil {
		return c, err
	}
	at, err := f.versionOf(ctx, r, number, n.Commit)
	if err != nil {
		return forge.Comment{}, err
	}
	there, err := f.discussed(ctx, r, number)
	if err != nil {
		return forge.Comment{}, err
	}
	for _, c := range n.Comments {
		if strings.Contains(there, c.Mark) {
			continue
		}
		if err := f.discuss(ctx, r, number, at, c); err != nil {
			return forge.Comment{}, err
		}
	}
	return f.Comment(ctx, r, number, n.Text(maxBody))
}

// discussed returns the texts of all notes of a merge request.
func (f *Forge) discussed(ctx context.Context, r forge.Repo, number int) (string, error) {
	var b strings.Builder
	a := mergeRequestAsk(r, number, "discussions")
	a.Query = url.Values{"per_page": {perPage}}
	err := forge.AllPages(ctx, f.wire, a, func(page []discussion) {
		for _, v := range page {
			for _, n := range v.Notes {
				b.WriteString(n.Body + "\n")
			}
		}
	})
	return b.String(), err
}

// discuss begins a discussion of lines.
func (f *Forge) discuss(ctx context.Context, r forge.Repo, number int, at version, c forge.LineComment) error {
	position := map[string]any{
		"position_type": "text", "base_sha": at.Base, "start_sha": at.Start, "head_sha": at.Head,
		"new_path": c.Path, "old_path": c.OldPath,
	}
	here, other := "new_line", "old_line"
	if c.OldSide {
		here, other = other, here
	}
	position[here] = c.Line
	if c.OtherLine > 0 { // GitLab requires both line numbers of an unchanged line
		position[other] = c.OtherLine
	}
	a := mergeRequestAsk(r, number, "discussions")
	a.Method = http.MethodPost
	kind := fmt.Sprintf("suggestion:-%d+0", c.Line-c.StartLine)
	a.In = map[string]any{"body": forge.Inert(c.Text(kind), maxBody), "position": position}
	err := f.wire.Do(ctx, a)
	if fault.Of(err).Code != forge.CodeRefused || err == nil {
		return err
	}
	c.Body = fmt.Sprintf("`%s`, lines %d to %d:\n\n%s", strings.ReplaceAll(forge.Line(c.Path, 1000), "`", "'"), c.StartLine, c.Line, c.Body)
	a.In = map[string]any{"body": forge.Inert(c.Text(""), maxBody)}
	return f.wire.Do(ctx, a)
}

// statusStates are the states of commit statuses.
var statusStates = map[forge.CheckState]string{forge.Pending: "pending", forge.Success: "success", forge.Neutral: "success", forge.Failure: "failed"}

// SetStatus implements [forge.Posting]. GitLab refuses to set a status to its
// current state, which SetStatus does not treat as an error.
func (f *Forge) SetStatus(ctx context.Context, r forge.Repo, commit string, s forge.Status) error {
	in := map[string]any{"state": statusStates[s.State], "name": s.Name, "description": s.Line()}
	if s.URL != "" {
		in["target_url"] = s.URL
	}
	err := f.wire.Do(ctx, forge.Ask{Repo: r, Method: http.MethodPost, Path: path(r, "statuses", commit), In: in})
	if err != nil && strings.Contains(err.Error(), "Cannot transition status") {
		return nil
	}
	return err
}
