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

// How often and how long to check a git lock. A lock is stale if lockIdle checks in a
// row find no process that holds it.
const (
	lockWait     = 100 * time.Millisecond
	lockPatience = 10 * time.Second
	lockIdle     = 3
)

// locked matches git 2.x's error message, in the C locale, about a lock.
var locked = regexp.MustCompile(`Unable to create '([^'\n]+\.lock)': File exists`)

// lockOf returns the path of the lock file that made git fail, or "" if git failed for
// another reason.
func lockOf(err error) string {
	if f, ok := errors.AsType[*Failure](err); ok {
		if m := locked.FindStringSubmatch(f.Detail); m != nil {
			return m[1]
		}
	}
	return ""
}

// unlocked calls do, and retries if do fails because another git process holds
// a lock. It removes a stale lock that a killed git has left in the clone.
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

// owns reports whether the lock is in the clone's .git. A hook may have printed the
// lock's name, so it cannot be trusted.
func (r *Repository) owns(lock string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(lock))
	if err != nil || !filepath.IsAbs(lock) {
		return false
	}
	info, err := os.Lstat(lock)
	return err == nil && info.Mode().IsRegular() && isInside(dir, filepath.Join(realPath(r.Path), ".git"))
}

// busy reports whether a git process is working in the clone, or any process
// has the lock open.
func (r *Repository) busy(lock string) bool {
	clone := realPath(r.Path)
	lock = filepath.Join(realPath(filepath.Dir(lock)), filepath.Base(lock))
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes { // a process that has ended yields nothing
		comm, _ := os.ReadFile(process + "/comm")
		git := strings.HasPrefix(string(comm), "git")
		if git && slices.ContainsFunc(foldersOf(process), func(at string) bool { return isInside(at, clone) || isInside(cloneOf(at), clone) }) {
			return true
		}
		open, _ := filepath.Glob(process + "/fd/*")
		for _, fd := range open {
			if at, err := os.Readlink(fd); err == nil && (at == lock || git && isInside(at, clone)) {
				return true
			}
		}
	}
	return false
}

// foldersOf returns the folders that a git process works on, from its arguments,
// environment and working directory.
func foldersOf(process string) []string {
	var all []string
	if dir, err := os.Readlink(process + "/cwd"); err == nil {
		all = append(all, dir)
	}
	words := func(name string) []string {
		text, _ := os.ReadFile(process + name) // empty if the process has ended
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
			all = append(all, realPath(word))
		}
	}
	return all
}

// cloneOf returns the repository that a worktree or submodule belongs to, given
// a folder in it; "" for any other folder.
func cloneOf(dir string) string {
	for ; filepath.IsAbs(dir) && dir != "/"; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, ".git"))
		if at, found := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: "); err == nil && found {
			if !filepath.IsAbs(at) {
				at = filepath.Join(dir, at)
			}
			return realPath(at)
		}
	}
	return ""
}

// isInside reports whether path is folder or is inside it.
func isInside(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// realPath resolves the symbolic links of a path; it returns the path unchanged if
// it cannot.
func realPath(path string) string {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		return at
	}
	return path
}
