package mirror

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aloft/internal/atomicfile"
	"aloft/internal/control/repourl"
	"aloft/internal/fault"
)

// upstreamHead is the ref in which a refresh stores the commit of the
// upstream's HEAD.
const upstreamHead = "refs/aloft/head"

// refresh is one fetch from the upstream, shared by any number of waiting
// callers.
type refresh struct {
	done    chan struct{}
	err     error
	waiting int
	stop    context.CancelCauseFunc // set when the refresh starts
}

// Refresh fetches from the upstream and returns the refs. Concurrent callers
// share one refresh, but never one that started before they called. On failure
// it returns a fault with one of this package's codes, and never silently
// serves old refs.
func (m *Mirror) Refresh(ctx context.Context, r repourl.Repo) (Snapshot, error) {
	f := m.join(r)
	select {
	case <-f.done:
		if f.err != nil {
			return Snapshot{}, f.err
		}
		return m.Snapshot(), nil
	case <-ctx.Done():
		m.leave(f)
		return Snapshot{}, context.Cause(ctx)
	}
}

// join joins the next refresh, which has not started yet. It creates that
// refresh if needed.
func (m *Mirror) join(r repourl.Repo) *refresh {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next == nil {
		m.next = &refresh{done: make(chan struct{})}
		if m.running == nil {
			m.begin(r)
			m.running.waiting++
			return m.running
		}
		prev, f := m.running, m.next
		m.all.work.Go(func() { // starts when the previous one has ended
			<-prev.done
			m.mu.Lock()
			defer m.mu.Unlock()
			if f.waiting == 0 { // every waiter has left
				m.next, f.err = nil, context.Canceled
				close(f.done)
				return
			}
			m.begin(r)
		})
	}
	m.next.waiting++
	return m.next
}

// begin starts the next refresh. The caller holds m.mu.
func (m *Mirror) begin(r repourl.Repo) {
	f := m.next
	m.running, m.next = f, nil
	ctx, stop := context.WithCancelCause(m.all.ctx)
	f.stop = stop
	m.all.work.Go(func() {
		defer stop(nil)
		start := time.Now()
		err := m.refresh(ctx, r)
		m.all.log.Debug("mirror refreshed", "repo", m.key, "duration", time.Since(start), "ok", err == nil)
		m.mu.Lock()
		f.err = err
		m.running = nil
		close(f.done)
		m.mu.Unlock()
		if err == nil {
			m.tend(m.all.ctx)
		}
	})
}

// leave stops waiting for a refresh. When the last waiter leaves, the refresh
// is cancelled.
func (m *Mirror) leave(f *refresh) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.waiting--
	if f.waiting == 0 && f.stop != nil {
		f.stop(context.Canceled)
	}
}

func (m *Mirror) refresh(ctx context.Context, r repourl.Repo) error {
	if err := m.lockWrite(ctx); err != nil {
		return err
	}
	defer m.unlockWrite()
	if err := m.prepare(ctx); err != nil {
		return err
	}
	if !m.headKnown {
		if err := m.learnHead(ctx, r); err != nil {
			return err
		}
	}
	err := m.fetch(ctx, r, "+HEAD:"+upstreamHead)
	if err != nil && strings.Contains(err.Error(), "couldn't find remote ref HEAD") {
		err = m.fetch(ctx, r) // the upstream is empty, or its HEAD names a missing branch
	}
	if err != nil && strings.Contains(err.Error(), "mismatched algorithms") && len(m.Snapshot().Refs) == 0 {
		if err = m.create(ctx, "sha256"); err == nil {
			err = m.fetch(ctx, r)
		}
	}
	if err != nil {
		return errors.Join(err, m.removeTemporary())
	}
	return m.settle(ctx, r)
}

// fetch fetches branches and tags, and deletes those that the upstream has
// deleted.
func (m *Mirror) fetch(ctx context.Context, r repourl.Repo, also ...string) error {
	args := []string{
		"fetch", "--quiet", "--force", "--prune", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
		"--no-auto-maintenance", "--", r.String(), "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*",
	}
	return m.bounded(ctx, r, append(args, also...))
}

// bounded runs git fetch, with bounds on its memory and on the size of the
// mirror. git checks the received objects. Callers remove the leftovers of a
// failed fetch.
func (m *Mirror) bounded(ctx context.Context, r repourl.Repo, args []string) error {
	left := m.all.maxMirror - m.packs()
	if left <= 0 {
		return m.tooLarge(r)
	}
	_, _, err := m.upstream(ctx, r, invocation{args: args, config: fsck, changes: true, dataLimit: PackMemory, fileLimit: uint64(left)})
	if err != nil && m.filled(left) {
		return m.tooLarge(r).Because(err)
	}
	return err
}

// filled reports whether a failed fetch has left a pack of at least that many
// bytes.
func (m *Mirror) filled(bytes int64) bool {
	files, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "tmp_*"))
	return err == nil && slices.ContainsFunc(files, func(f string) bool {
		info, err := os.Lstat(f)
		return err == nil && info.Size() >= bytes
	})
}

func (m *Mirror) tooLarge(r repourl.Repo) *fault.Error {
	return fault.Exhausted("repository %s is larger than this server's limit of %d MiB", r, m.all.maxMirror>>20).Named(CodeDiskFull).
		Hint("ask an administrator to check the repository on its git server")
}

// packs returns the total size of the mirror's packs in bytes.
func (m *Mirror) packs() (size int64) {
	packs, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.pack"))
	if err != nil {
		return 0
	}
	for _, p := range packs {
		if info, err := os.Lstat(p); err == nil {
			size += info.Size()
		}
	}
	return size
}

// fsck makes git check objects from an upstream. It tolerates harmless mistakes
// of old git versions and importers, which many repositories contain.
var fsck = func() [][2]string {
	config := [][2]string{{"fetch.fsckObjects", "true"}}
	for _, id := range []string{
		"zeroPaddedFilemode", "badFilemode", "zeroPaddedDate", "badTimezone", "badDateOverflow", "missingSpaceBeforeDate",
		"missingSpaceBeforeEmail", "missingNameBeforeEmail", "missingEmail", "multipleAuthors", "nulInCommit",
		"missingTaggerEntry", "badTagName", "gitmodulesParse",
		"gitmodulesUrl", // the server clones no submodules, and a machine's git rejects such a URL itself
	} {
		config = append(config, [2]string{"fetch.fsck." + id, "ignore"})
	}
	return config
}()

// settle reads the mirror's refs after a fetch. If the known default branch is
// no longer at the commit of the upstream's HEAD, it asks the upstream for the
// default branch.
func (m *Mirror) settle(ctx context.Context, r repourl.Repo) error {
	refs, head, err := m.readRefs(ctx)
	if err != nil {
		return err
	}
	if len(refs) > m.all.maxRefs { // the refs of a dumb HTTP server are counted only here
		return tooManyRefsIn(r, tooManyRefs(m.all.maxRefs))
	}
	snap := Snapshot{m.defaultBranch(), refs}
	if head != "" && snap.ID("refs/heads/"+snap.DefaultBranch) != head {
		if err := m.learnHead(ctx, r); err != nil {
			return err
		}
		snap.DefaultBranch = m.defaultBranch()
	}
	m.mu.Lock()
	m.retire(snap.Refs)
	m.snapshot, m.headKnown = snap, true
	m.mu.Unlock()
	return nil
}

// readRefs lists branches and tags, and returns the commit of the upstream's
// HEAD separately.
func (m *Mirror) readRefs(ctx context.Context) (refs []Ref, head string, err error) {
	args := []string{"for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags", upstreamHead}
	out, _, err := m.git(ctx, invocation{args: args})
	if err != nil {
		return nil, "", err
	}
	for line := range bytes.Lines(out) {
		id, name, _ := strings.Cut(string(bytes.TrimSpace(line)), " ")
		if name == upstreamHead {
			head = id
			continue
		}
		refs = append(refs, Ref{name, id})
	}
	return refs, head, nil
}

// learnHead asks the upstream for its default branch and sets it in the mirror.
func (m *Mirror) learnHead(ctx context.Context, r repourl.Repo) error {
	out, _, err := m.upstream(ctx, r, invocation{args: []string{"ls-remote", "--quiet", "--symref", "--", r.String(), "HEAD"}})
	if err != nil {
		return err
	}
	for line := range bytes.Lines(out) {
		target, ok := strings.CutPrefix(string(line), "ref: ")
		if !ok {
			continue
		}
		target, name, _ := strings.Cut(strings.TrimSpace(target), "\t")
		if name == "HEAD" && strings.HasPrefix(target, "refs/heads/") && ValidRef(target) {
			return m.setHead(target)
		}
	}
	return nil
}

func (m *Mirror) setHead(target string) error {
	return atomicfile.Write(filepath.Join(m.dir, "HEAD"), []byte("ref: "+target+"\n"), 0o644)
}

func (m *Mirror) defaultBranch() string {
	b, err := os.ReadFile(filepath.Join(m.dir, "HEAD"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.TrimPrefix(string(b), "ref: refs/heads/"))
}
