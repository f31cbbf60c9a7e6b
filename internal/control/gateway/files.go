package gateway

import (
	"context"
	"regexp"

	"aloft/internal/control/mirror"
)

// Blob is a file of a commit; see [mirror.Blob].
type Blob = mirror.Blob

// Tree is a selection of files of one commit.
type Tree struct {
	Commit string // "" if the repository has no commits
	Files  map[string]Blob
	Links  []string // paths of symbolic links, which are not followed
}

var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Files looks up files by path in a branch, tag or commit ("" means the default
// branch). Missing files are left out. It returns the errors of
// [Gateway.Check].
func (g *Gateway) Files(ctx context.Context, repoURL, ref string, paths []string) (Tree, error) {
	r, m, err := g.open(repoURL)
	if err != nil {
		return Tree{}, err
	}
	if !commitID.MatchString(ref) { // a commit never changes, so no refresh is needed
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

// Walk calls visit for each file of a commit returned by Files, or for those in the
// given folders; see
// [mirror.Mirror.Walk].
func (g *Gateway) Walk(ctx context.Context, repoURL, commit string, visit func(path string, b Blob), folders ...string) error {
	_, m, err := g.open(repoURL)
	if err != nil {
		return err
	}
	return m.Walk(ctx, commit, visit, folders...)
}

// Contents returns at most limit bytes of a file returned by Files.
func (g *Gateway) Contents(ctx context.Context, repoURL string, b Blob, limit int64) ([]byte, error) {
	_, m, err := g.open(repoURL)
	if err != nil {
		return nil, err
	}
	return m.Contents(ctx, b, limit)
}

// Export writes the files of a commit returned by Files into dir, an empty
// folder; see [mirror.Mirror.Export].
func (g *Gateway) Export(ctx context.Context, repoURL, commit, dir string) error {
	_, m, err := g.open(repoURL)
	if err != nil {
		return err
	}
	return m.Export(ctx, commit, dir)
}

// IDs returns the object ids of paths in a commit returned by Files; see
// [mirror.Mirror.IDs].
func (g *Gateway) IDs(ctx context.Context, repoURL, commit string, paths []string) (map[string]string, error) {
	_, m, err := g.open(repoURL)
	if err != nil {
		return nil, err
	}
	return m.IDs(ctx, commit, paths)
}

// Commit describes a commit; see [mirror.Commit].
type Commit = mirror.Commit

// Log returns the commits on a branch since base. Both are full commit ids in
// the mirror; see [mirror.Mirror.Log].
func (g *Gateway) Log(ctx context.Context, repoURL, base, tip string, most int) ([]Commit, error) {
	_, m, err := g.open(repoURL)
	if err != nil {
		return nil, err
	}
	return m.Log(ctx, base, tip, most)
}
