package gateway

import (
	"context"
	"time"

	"aloft/internal/control/mirror"
	"aloft/internal/fault"
)

// Lines is a range of lines and the run that wrote it; see [mirror.Lines].
type Lines = mirror.Lines

const (
	noteTime     = 5 * time.Minute
	maxBlamed    = 100              // files of one request
	allBlameTime = 30 * time.Second // for all of them
)

// note starts to write the notes of an accepted push. The push does not wait
// for them.
func (q *request) note(old, tip string) {
	g, access := q.g, q.access
	p := mirror.Pushed{Branch: access.branch, Old: old, New: tip}
	author := mirror.Author{Agent: q.s.grant.AgentID, Run: q.s.grant.RunID}
	g.noting.Go(func() {
		ctx, cancel := context.WithTimeout(g.noteCtx, noteTime)
		defer cancel()
		if err := access.mirror.Note(ctx, access.repo, p, author); err != nil {
			g.log.Info("the notes of a push are not at its server", "repo", access.repo.Key(), "run", author.Run, "err", err)
		}
	})
}

// Blamed says which runs wrote the lines of files.
type Blamed struct {
	Files map[string][]Lines // by path
	More  bool               // there are more files than were read
}

// Blame returns which commits, and so which runs, have changed the lines of
// files at tip: a branch, tag or commit. base is another, and may be empty: then
// it tells of all lines, otherwise of those that changed since the merge base.
// Files that do not exist are left out. If paths is empty, the files that have
// changed since base are read. It returns the errors of [Gateway.Check].
func (g *Gateway) Blame(ctx context.Context, repoURL, base, tip string, paths []string) (Blamed, error) {
	out := Blamed{Files: map[string][]Lines{}}
	if base == "" && len(paths) == 0 {
		return out, fault.Invalid("name files, or a commit since which they changed")
	}
	r, m, err := g.open(repoURL)
	if err != nil {
		return out, err
	}
	if _, err := m.Refresh(ctx, r); err != nil {
		return out, err
	}
	end, err := m.Resolve(ctx, r, tip)
	if err != nil || end.Commit == "" {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, allBlameTime)
	defer cancel()
	since := ""
	if base != "" {
		start, err := m.Resolve(ctx, r, base)
		if err != nil || start.Commit == "" {
			return out, err
		}
		if since, err = m.MergeBase(ctx, start.Commit, end.Commit); err != nil {
			return out, err
		}
	}
	if len(paths) == 0 {
		if paths, err = m.Changed(ctx, since, end.Commit); err != nil || len(paths) == 0 {
			return out, err
		}
	}
	if out.More = len(paths) > maxBlamed; out.More {
		paths = paths[:maxBlamed]
	}
	files, _, err := m.Tree(ctx, end.Commit, paths)
	if err != nil {
		return out, err
	}
	for _, name := range paths {
		if _, ok := files[name]; !ok || out.Files[name] != nil {
			continue
		}
		if out.Files[name], err = m.Blame(ctx, since, end.Commit, name); err != nil {
			return out, err
		}
	}
	return out, nil
}
