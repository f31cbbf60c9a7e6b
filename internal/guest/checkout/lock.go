package checkout

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
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
// waited for; one that a git left behind when it was killed is removed.
func (r *Repository) unlocked(ctx context.Context, do func() error) error {
	idle := 0
	for began := time.Now(); ; {
		err := do()
		lock := lockOf(err)
		if lock == "" || time.Since(began) > lockPatience {
			return err
		}
		if idle++; r.busy() {
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

// busy reports whether a git works in the clone.
func (r *Repository) busy() bool {
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(comm), "git") { // it has ended
			continue
		}
		dir, err := os.Readlink(filepath.Join(filepath.Dir(name), "cwd"))
		if err == nil && (dir == r.Path || strings.HasPrefix(dir, r.Path+"/")) {
			return true
		}
	}
	return false
}
