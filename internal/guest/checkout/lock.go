package checkout

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// How long a lock of git's is waited for, and how often in a row nobody may be
// seen to hold it until it is taken for one that was left behind.
const (
	lockWait     = 100 * time.Millisecond
	lockPatience = 10 * time.Second
	lockIdle     = 3
)

// locked is what git 2.x says in the C locale where another may be at work.
var locked = regexp.MustCompile(`Unable to create '([^'\n]+\.lock)': File exists`)

// lockOf returns the lock that git failed for, "" if it was not for one.
func lockOf(err error) string {
	if f, ok := errors.AsType[*Failure](err); ok {
		if m := locked.FindStringSubmatch(f.Detail); m != nil {
			return m[1]
		}
	}
	return ""
}

// unlocked does what git refuses to do while another has a lock. Who has it is
// waited for; one that a git left behind in the clone when it was killed is
// removed.
func (r *Repository) unlocked(ctx context.Context, do func() error) error {
	idle := 0
	for began := time.Now(); ; {
		err := do()
		lock := lockOf(err)
		if lock == "" || !r.owns(lock) || time.Since(began) > lockPatience {
			return err
		}
		if idle++; r.busy(lock) {
			idle = 0
		}
		if idle == lockIdle {
			if _, removing := r.command(ctx, quickLimit, "rm", "-f", "--", lock); removing != nil {
				return errors.Join(err, removing)
			}
			idle = 0
			continue
		}
		select {
		case <-time.After(lockWait):
		case <-ctx.Done():
			return err
		}
	}
}

// owns reports whether the lock lies in the clone's own .git. Its name is what
// git has printed, or a hook in its place.
func (r *Repository) owns(lock string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(lock))
	if err != nil || !filepath.IsAbs(lock) {
		return false
	}
	info, err := os.Lstat(lock)
	return err == nil && info.Mode().IsRegular() && within(dir, filepath.Join(real(r.Path), ".git"))
}

// busy reports whether a git works in the clone, wherever it was started, or
// whether any program has the lock open.
func (r *Repository) busy(lock string) bool {
	clone := real(r.Path)
	lock = filepath.Join(real(filepath.Dir(lock)), filepath.Base(lock))
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes { // one that has ended says nothing
		comm, _ := os.ReadFile(process + "/comm")
		git := strings.HasPrefix(string(comm), "git")
		if git && slices.ContainsFunc(foldersOf(process), func(at string) bool { return within(at, clone) || within(cloneOf(at), clone) }) {
			return true
		}
		open, _ := filepath.Glob(process + "/fd/*")
		for _, fd := range open {
			if at, err := os.Readlink(fd); err == nil && (at == lock || git && within(at, clone)) {
				return true
			}
		}
	}
	return false
}

// foldersOf are the folders that a git process was told of.
func foldersOf(process string) []string {
	var all []string
	if dir, err := os.Readlink(process + "/cwd"); err == nil {
		all = append(all, dir)
	}
	words := func(name string) []string {
		text, _ := os.ReadFile(process + name) // empty once it has ended
		return strings.Split(string(text), "\x00")
	}
	given := words("/cmdline")
	for _, v := range words("/environ") {
		if strings.HasPrefix(v, "GIT_") { // GIT_DIR, GIT_WORK_TREE, GIT_INDEX_FILE
			given = append(given, v)
		}
	}
	for _, word := range given {
		if _, at, found := strings.Cut(word, "="); found {
			word = at
		}
		if filepath.IsAbs(word) {
			all = append(all, real(word))
		}
	}
	return all
}

// cloneOf is where the worktree or the submodule has its repository that the
// folder lies in; "" if it is neither.
func cloneOf(dir string) string {
	for ; filepath.IsAbs(dir) && dir != "/"; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, ".git"))
		if at, found := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: "); err == nil && found {
			if !filepath.IsAbs(at) {
				at = filepath.Join(dir, at)
			}
			return real(at)
		}
	}
	return ""
}

// within reports whether a path is the folder or lies in it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// real is the path without symbolic links, or as it is where it cannot be told.
func real(path string) string {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		return at
	}
	return path
}
