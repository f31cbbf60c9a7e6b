package automation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// Folder is the folder of a repository whose YAML files define automations.
const Folder = ".aloft/automations"

// MaxFiles is the maximum number of automations that the files of one repository
// define.
const MaxFiles = 100

// A Repository is a repository whose files define automations.
type Repository struct {
	URL    string
	UserID int64 // the owner of the agents
}

// Files reads the files of a repository. Errors are faults.
type Files interface {
	// Automations returns the commit of the default branch of a repository, and
	// the files in [Folder] at that commit by path, at most [MaxFiles] of at most
	// [MaxSpec] bytes. If the commit is known, it returns no files.
	Automations(ctx context.Context, repoURL, known string) (commit string, files map[string][]byte, err error)
}

// Sync makes the automations of a repository those that its files define at the
// default branch. known is the commit of the last call. A file that cannot be
// read leaves its automation paused, with the reason.
func (d *Desk) Sync(ctx context.Context, from Files, r Repository, known string) (commit string, err error) {
	commit, files, err := from.Automations(ctx, r.URL, known)
	if err != nil || commit == known {
		return commit, err
	}
	existing, err := d.Store.RepoAutomations(ctx, r.URL)
	if err != nil {
		return known, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := d.syncFile(ctx, r, commit, name, files[name]); err != nil {
			return known, err
		}
	}
	for _, a := range existing {
		if _, ok := files[a.Path]; !ok {
			if err := d.Store.DeleteAutomation(ctx, a.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
				return known, err
			}
		}
	}
	return commit, nil
}

// invalidFile begins the reason of an automation that is paused because its file
// is invalid.
const invalidFile = "the file is invalid: "

// syncFile adds or changes the automation that a file defines.
func (d *Desk) syncFile(ctx context.Context, r Repository, commit, name string, data []byte) error {
	s, wrong := ParseFile(data, r.URL)
	if wrong != nil {
		s = Spec{Name: strings.TrimSuffix(path.Base(name), path.Ext(name)), Repository: r.URL}
	}
	spec, err := json.Marshal(s)
	if err != nil {
		return err
	}
	now := d.now().UTC()
	set := func(a *store.Automation) error {
		changed := !bytes.Equal(compact(a.Spec), spec)
		a.Commit = commit
		switch {
		case wrong != nil:
			a.State, a.Reason = store.AutomationPaused, invalidFile+sentence(wrong)
		case strings.HasPrefix(a.Reason, invalidFile) || a.State == "":
			a.State, a.Reason, changed = store.AutomationActive, "", true
		}
		if wrong == nil || a.Version == 0 {
			a.Spec = spec
		}
		if a.UserID = r.UserID; !changed || wrong != nil {
			return nil //nolint:nilerr // the failure is recorded
		}
		a.Version, a.Failures, a.UpdatedAt = a.Version+1, 0, now
		return Plan(a, s, now)
	}
	a := store.Automation{ID: ID(r.URL, name), CreatedBy: r.UserID, Repo: r.URL, Path: name, CreatedAt: now, UpdatedAt: now}
	if err := set(&a); err != nil {
		return err
	}
	a.Version = max(a.Version, 1)
	err = d.Store.AddAutomation(ctx, a)
	if errors.Is(err, store.ErrExists) {
		_, err = d.Store.ChangeAutomation(ctx, a.ID, func(a *store.Automation) ([]store.AutomationStart, error) { return nil, set(a) })
	}
	return err
}

// compact returns JSON as [json.Marshal] writes it.
func compact(data json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return nil
	}
	return b.Bytes()
}

// Follow syncs repositories every so often until ctx ends, as long as this
// server holds the lease.
func (d *Desk) Follow(ctx context.Context, from Files, leases store.Leases, repos func(context.Context) ([]Repository, error), every time.Duration) {
	known := map[Repository]string{}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		mine, err := leases.Acquire(ctx, "automation-files", d.Owner, 3*every)
		var all []Repository
		if err == nil && mine {
			all, err = repos(ctx)
		}
		if err != nil && ctx.Err() == nil {
			d.Logger.Error("cannot read the automations of repositories", "error", err)
		}
		for _, r := range all {
			commit, err := d.Sync(ctx, from, r, known[r])
			if err != nil && ctx.Err() == nil {
				d.Logger.Warn("cannot read the automations of a repository", "repo", r.URL, "error", fault.Of(err).Message)
			}
			known[r] = commit
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
