package fake

import (
	"context"
	"slices"
	"strings"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
	"aloft/internal/patch"
)

// defaultDiff is the diff of pull requests without [Forge.SetDiff]: it adds a
// file with one line.
const defaultDiff = "diff --git a/file b/file\nnew file mode 100644\n--- /dev/null\n+++ b/file\n@@ -0,0 +1 @@\n+1\n"

// SetDiff sets the diff of a pull request, as git diff prints it.
func (f *Forge) SetDiff(r forge.Repo, number int, diff string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p, err := f.pull(r, number); err == nil {
		p.diff = diff
	}
}

// change returns the diff of the pull request.
func (p *pull) change() patch.Patch {
	text := p.diff
	if text == "" {
		text = defaultDiff
	}
	change, err := patch.Parse(text)
	if err != nil {
		panic(err) // a mistake of the test
	}
	return change
}

// CheckComment returns why a host rejects a comment of a review, because its
// lines are not part of one hunk of the diff.
func (f *Forge) CheckComment(r forge.Repo, number int, c forge.LineComment) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return err
	}
	return p.check(c)
}

func (p *pull) check(c forge.LineComment) error {
	path := c.Path
	if c.OldSide {
		path = c.OldPath
	}
	if err := p.change().Check(path, c.StartLine, c.Line, c.OldSide); err != nil {
		return fault.Invalid("%v", err).Named(forge.CodeRefused)
	}
	return nil
}

// CheckPlace is like [Forge.CheckComment], for a host that, like GitLab, wants
// both line numbers for an unchanged line, and one for a changed line.
func (f *Forge) CheckPlace(r forge.Repo, number int, c forge.LineComment) error {
	if err := f.CheckComment(r, number, c); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return err
	}
	path := c.Path
	if c.OldSide {
		path = c.OldPath
	}
	if _, other, _ := p.change().Place(path, c.Line, c.OldSide); other != c.OtherLine {
		return fault.Invalid("the other line is %d, not %d", other, c.OtherLine).Named(forge.CodeRefused)
	}
	return nil
}

// IsCommit reports whether the commit is or was the head of the pull request.
func (f *Forge) IsCommit(r forge.Repo, number int, commit string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	return err == nil && (p.HeadCommit == commit || slices.Contains(p.earlier, commit))
}

// AddReview adds a review by [Login] with the given comments, whose texts it
// does not change, and returns its ID. If body is "", it adds only the comments.
func (f *Forge) AddReview(r forge.Repo, number int, commit, body string, comments []forge.LineComment) (forge.Comment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return forge.Comment{}, err
	}
	var said forge.Comment
	if body != "" {
		said = p.comment(Login, body)
		p.reviews = append(p.reviews, forge.Review{ID: said.ID, Author: Login, Verdict: forge.Commented, Body: said.Body, Commit: commit, SubmittedAt: said.CreatedAt, URL: said.URL})
	}
	for _, c := range comments {
		one := p.comment(Login, c.Body)
		one.Path, one.Line = c.Path, c.Line
		t := forge.Thread{ID: one.ID, Path: c.Path, Line: c.Line, OldSide: c.OldSide, Comments: []forge.Comment{one}}
		if c.StartLine < c.Line {
			t.StartLine = c.StartLine
		}
		p.threads = append(p.threads, t)
		if p.groups == nil {
			p.groups = map[string]string{}
		}
		p.groups[t.ID] = said.ID
	}
	return said, nil
}

// ReviewOf returns the ID of the review to which a thread belongs, or "".
func (f *Forge) ReviewOf(r forge.Repo, number int, threadID string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return ""
	}
	return p.groups[threadID]
}

// PostReview implements [forge.Posting].
func (f *Forge) PostReview(ctx context.Context, r forge.Repo, number int, n forge.NewReview) (forge.Comment, error) {
	if err := n.Check(); err != nil {
		return forge.Comment{}, err
	}
	if _, err := f.enter(ctx, "PostReview", r); err != nil {
		return forge.Comment{}, err
	}
	p, err := f.pull(r, number)
	if err == nil {
		for _, c := range p.all() {
			if strings.Contains(c.Body, n.Mark) {
				f.mu.Unlock()
				return c, nil
			}
		}
		if p.HeadCommit != n.Commit && !slices.Contains(p.earlier, n.Commit) {
			err = fault.Invalid("%s is not a commit of the pull request", n.Commit).Named(forge.CodeRefused)
		}
	}
	var comments []forge.LineComment
	for _, c := range n.Comments {
		if err == nil {
			err = p.check(c)
		}
		c.Body = c.Text("suggestion")
		comments = append(comments, c)
	}
	f.mu.Unlock()
	if err != nil {
		return forge.Comment{}, err
	}
	return f.AddReview(r, number, n.Commit, n.Body+"\n"+n.Mark, comments)
}

// SetStatus implements [forge.Posting].
func (f *Forge) SetStatus(ctx context.Context, r forge.Repo, commit string, s forge.Status) error {
	if _, err := f.enter(ctx, "SetStatus", r); err != nil {
		return err
	}
	f.mu.Unlock()
	state := s.State
	if state == forge.Neutral {
		state = forge.Success
	}
	f.SetCheck(r, commit, forge.Check{Name: s.Name, State: state, Summary: s.Line(), URL: s.URL})
	return nil
}
