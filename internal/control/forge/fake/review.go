package fake

import (
	"context"
	"slices"
	"strconv"
	"time"

	"aloft/internal/control/forge"
)

// comment returns a new comment, which is not part of the pull request yet.
func (p *pull) comment(author, body string) forge.Comment {
	p.made++
	c := forge.Comment{ID: strconv.Itoa(p.made), Author: author, Body: forge.Cut(body, 65536), CreatedAt: time.Now().UTC()}
	c.URL = p.URL + "#" + c.ID
	return c
}

// all returns the comments of the pull request, of its threads and reviews.
func (p *pull) all() []forge.Comment {
	all := slices.Clone(p.comments)
	for _, t := range p.threads {
		all = append(all, t.Comments...)
	}
	for _, v := range p.reviews {
		if v.Body != "" {
			all = append(all, forge.Comment{ID: v.ID, Author: v.Author, Body: v.Body, CreatedAt: v.SubmittedAt, URL: v.URL})
		}
	}
	return all
}

// Plain returns the comments on the pull request itself, oldest first.
func (f *Forge) Plain(r forge.Repo, number int) []forge.Comment {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return nil
	}
	return slices.Clone(p.comments)
}

// SayOn adds a thread by another user about lines of a file, and returns its id.
func (f *Forge) SayOn(r forge.Repo, number int, author, path string, line int, body string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return ""
	}
	c := p.comment(author, body)
	c.Path, c.Line = path, line
	p.threads = append(p.threads, forge.Thread{ID: c.ID, Path: path, Line: line, Comments: []forge.Comment{c}})
	return c.ID
}

// SubmitReview adds a review by another user of the current commit.
func (f *Forge) SubmitReview(r forge.Repo, number int, author string, verdict forge.ReviewVerdict, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p, err := f.pull(r, number); err == nil {
		c := p.comment(author, body)
		p.reviews = append(p.reviews, forge.Review{ID: c.ID, Author: author, Verdict: verdict, Body: c.Body, Commit: p.HeadCommit, SubmittedAt: c.CreatedAt, URL: c.URL})
	}
}

// SetLog sets the log of a check that has the LogID.
func (f *Forge) SetLog(r forge.Repo, logID, log string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.repos[r.Path].logs[logID] = log
}

// RawLog returns a log as it was set.
func (f *Forge) RawLog(r forge.Repo, logID string) (log string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	log, ok = f.repos[r.Path].logs[logID]
	return log, ok
}

// Threads implements [forge.Reviewed].
func (f *Forge) Threads(ctx context.Context, r forge.Repo, number int) ([]forge.Thread, error) {
	if _, err := f.enter(ctx, "Threads", r); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return nil, err
	}
	var all []forge.Thread
	for _, t := range p.threads {
		t.Comments = slices.Clone(t.Comments)
		all = append(all, t)
	}
	return forge.NewestThreads(all), nil
}

// Reviews implements [forge.Reviewed].
func (f *Forge) Reviews(ctx context.Context, r forge.Repo, number int) ([]forge.Review, error) {
	if _, err := f.enter(ctx, "Reviews", r); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return nil, err
	}
	return forge.NewestReviews(slices.Clone(p.reviews)), nil
}

func (p *pull) thread(r forge.Repo, id string) (*forge.Thread, error) {
	if i := slices.IndexFunc(p.threads, func(t forge.Thread) bool { return t.ID == id }); i >= 0 {
		return &p.threads[i], nil
	}
	return nil, forge.NoThread(r, p.Number, id)
}

// Reply implements [forge.Reviewed].
func (f *Forge) Reply(ctx context.Context, r forge.Repo, number int, threadID, body string) (forge.Comment, error) {
	if err := forge.CheckComment(body); err != nil {
		return forge.Comment{}, err
	}
	if _, err := f.enter(ctx, "Reply", r); err != nil {
		return forge.Comment{}, err
	}
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return forge.Comment{}, err
	}
	t, err := p.thread(r, threadID)
	if err != nil {
		return forge.Comment{}, err
	}
	c := p.comment(Login, body)
	c.Path, c.Line = t.Path, t.Line
	t.Comments = append(t.Comments, c)
	return c, nil
}

// Resolve implements [forge.Reviewed].
func (f *Forge) Resolve(ctx context.Context, r forge.Repo, number int, threadID string) error {
	if _, err := f.enter(ctx, "Resolve", r); err != nil {
		return err
	}
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return err
	}
	t, err := p.thread(r, threadID)
	if err == nil {
		t.Resolved = true
	}
	return err
}

// MayWrite implements [forge.Access].
func (f *Forge) MayWrite(ctx context.Context, r forge.Repo, login string) (bool, error) {
	if _, err := f.enter(ctx, "MayWrite", r); err != nil {
		return false, err
	}
	defer f.mu.Unlock()
	return login == Login || slices.Contains(f.Writers, login), nil
}

// Log implements [forge.Logged].
func (f *Forge) Log(ctx context.Context, r forge.Repo, c forge.Check) ([]byte, error) {
	in, err := f.enter(ctx, "Log", r)
	if err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	log, ok := in.logs[c.LogID]
	if !ok {
		return nil, forge.NoLog(r, c)
	}
	return forge.CleanLog([]byte(log)), nil
}
