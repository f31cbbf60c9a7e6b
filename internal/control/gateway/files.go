package gateway

import (
	"context"
	"regexp"

	"aloft/internal/control/mirror"
)

// Blob is a file of a commit; see [mirror.Blob].
type Blob = mirror.Blob

// Tree is some files of a repository at one commit.
type Tree struct {
	Commit string // "" in a repository without commits
	Files  map[string]Blob
	Links  []string // what is there as a symbolic link, which nobody follows
}

var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Files finds files at a branch, tag or commit, "" being the default branch, by
// their paths from the root; what is not there is left out. Errors are those of
// [Gateway.Check].
func (g *Gateway) Files(ctx context.Context, repoURL, ref string, paths []string) (Tree, error) {
	r, m, err := g.open(repoURL)
	if err != nil {
		return Tree{}, err
	}
	if !commitID.MatchString(ref) { // a commit does not move
		if _, err := m.Refresh(ctx, r); err != nil {
			return Tree{}, err
		}
	}
	at, err := m.Resolve(ctx, r, ref)
	if err != nil || at.Commit == "" {
		return Tree{}, err
	}
	files, links, err := m.Tree(ctx, at.Commit, paths)
	return Tree{at.Commit, files, links}, err
}

// Walk calls visit with each file of a commit that Files has found; see
// [mirror.Mirror.Walk].
func (g *Gateway) Walk(ctx context.Context, repoURL, commit string, visit func(path string, b Blob)) error {
	_, m, err := g.open(repoURL)
	if err != nil {
		return err
	}
	return m.Walk(ctx, commit, visit)
}

// Contents returns what a file holds that Files has found: at most limit bytes.
func (g *Gateway) Contents(ctx context.Context, repoURL string, b Blob, limit int64) ([]byte, error) {
	_, m, err := g.open(repoURL)
	if err != nil {
		return nil, err
	}
	return m.Contents(ctx, b, limit)
}

// Export writes the files of a commit that Files has found into dir, an empty
// folder; see [mirror.Mirror.Export].
func (g *Gateway) Export(ctx context.Context, repoURL, commit, dir string) error {
	_, m, err := g.open(repoURL)
	if err != nil {
		return err
	}
	return m.Export(ctx, commit, dir)
}

// IDs identifies what such a commit has at paths; see [mirror.Mirror.IDs].
func (g *Gateway) IDs(ctx context.Context, repoURL, commit string, paths []string) (map[string]string, error) {
	_, m, err := g.open(repoURL)
	if err != nil {
		return nil, err
	}
	return m.IDs(ctx, commit, paths)
}

// Commit is what a commit says of itself; see [mirror.Commit].
type Commit = mirror.Commit

// Log returns the commits of a branch since base, both as whole ids of commits
// that the mirror holds; see [mirror.Mirror.Log].
func (g *Gateway) Log(ctx context.Context, repoURL, base, tip string, most int) ([]Commit, error) {
	_, m, err := g.open(repoURL)
	if err != nil {
		return nil, err
	}
	return m.Log(ctx, base, tip, most)
}
