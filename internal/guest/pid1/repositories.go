package pid1

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"aloft/internal/guest/checkout"
	"aloft/internal/wire/podv1"
)

// maxRepositories limits the number of repositories in a machine; maxNotes
// limits the notes about their submodules.
const (
	maxRepositories = 20
	maxNotes        = 20
)

// checkCheckouts checks that each repository has its own folder, outside those
// of the others.
func checkCheckouts(r *podv1.BootRequest) error {
	var paths []string
	if p := r.GetCheckout().GetPath(); p != "" {
		paths = append(paths, p)
	}
	for _, c := range r.GetOthers() {
		if c.GetRepoUrl() == "" || r.GetCheckout().GetRepoUrl() == "" || len(paths) == 0 {
			return errors.New("others: each repository needs a URL; if there are several, the first also needs a path")
		}
		paths = append(paths, c.GetPath())
	}
	if len(paths) > maxRepositories {
		return fmt.Errorf("others: a machine has at most %d repositories", maxRepositories)
	}
	for i, p := range paths {
		if !filepath.IsAbs(p) || filepath.Clean(p) == "/" {
			return fmt.Errorf("checkout.path: %q is not an absolute path of a folder", p)
		}
		if i > 0 && (filepath.Dir(filepath.Clean(p)) != filepath.Dir(filepath.Clean(paths[0])) || slices.Contains(paths[:i], p)) {
			return fmt.Errorf("others: the folder %q overlaps with %s", p, paths[0])
		}
	}
	return nil
}

// root returns the folder in which the agent starts: the repository, or the
// parent folder of several.
func (b *boot) root() string {
	path := b.req.GetCheckout().GetPath()
	switch {
	case path == "":
		return b.d.cfg.Workspace
	case len(b.req.GetOthers()) > 0:
		return filepath.Dir(filepath.Clean(path))
	}
	return path
}

// checkout checks the repositories out.
func (b *boot) checkout(ctx context.Context, progress func(string)) (string, error) {
	d, first := b.d, b.req.GetCheckout()
	if first.GetRepoUrl() == "" {
		return "no repository", d.ownFolder(b.root())
	}
	if err := d.configureGit(b.req); err != nil {
		return "", err
	}
	if len(b.req.GetOthers()) == 0 {
		repo, detail, err := b.checkoutOne(ctx, first, "checkout.json", progress)
		if err != nil {
			return "", err
		}
		d.mu.Lock()
		d.repos = []*checkout.Repository{repo}
		d.mu.Unlock()
		return detail, nil
	}
	if err := d.ownFolder(b.root()); err != nil {
		return "", err
	}
	var repos []*checkout.Repository
	details := ""
	for i, want := range append([]*podv1.Checkout{first}, b.req.GetOthers()...) {
		name, record := filepath.Base(want.GetPath()), "checkout.json"
		if i > 0 {
			sum := sha256.Sum256([]byte(want.GetPath()))
			record = "checkout-" + hex.EncodeToString(sum[:8]) + ".json"
		}
		repo, detail, err := b.checkoutOne(ctx, want, record, func(s string) { progress(name + ": " + s) })
		if f, is := errors.AsType[*checkout.Failure](err); is {
			return "", &checkout.Failure{Code: f.Code, Detail: want.GetRepoUrl() + ": " + f.Detail}
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", want.GetRepoUrl(), err)
		}
		repos = append(repos, repo)
		if details != "" {
			details += "; "
		}
		details += name + ": " + detail
	}
	d.mu.Lock()
	d.repos = repos
	d.mu.Unlock()
	return details, nil
}

// checkoutOne checks one repository out, unless that was done before.
func (b *boot) checkoutOne(ctx context.Context, want *podv1.Checkout, record string, progress func(string)) (*checkout.Repository, string, error) {
	d := b.d
	path := d.cfg.Workspace
	if want.GetPath() != "" {
		path = filepath.Clean(want.GetPath())
	}
	repo := &checkout.Repository{
		Path: path, URL: want.GetRepoUrl(), Run: d.runOwn, Secret: b.req.GetGitCredential(), Gateway: d.gateway(),
		Record: filepath.Join(d.cfg.DataDir, record), System: d.gitConfigFile(),
		Own:   filepath.Join(d.cfg.RunDir, "git", strings.TrimSuffix(record, ".json")),
		Claim: d.user.Load().chown,
	}
	state, found, err := repo.Find(ctx)
	if err != nil {
		return nil, "", err
	}
	spec := checkout.Spec{
		URL: want.GetRepoUrl(), Ref: want.GetRef(), Branch: want.GetBranch(), Resume: want.GetResume(), Owner: want.GetOwner(),
	}
	detail := "already checked out"
	switch {
	case found && state.Owner != "" && state.Owner == want.GetContinues():
		if state, err = repo.BranchOff(ctx, spec); err != nil {
			return nil, "", err
		}
		detail = "continues from " + want.GetContinues()
	case found && state.Owner != "" && state.Owner != spec.Owner:
		if state, err = repo.Adopt(ctx, spec); err != nil {
			return nil, "", err
		}
		detail = "updated the checkout on the disk"
	case !found:
		if state, err = repo.Make(ctx, spec, progress); err != nil {
			return nil, "", err
		}
		detail = "cloned"
		if state.Base == "" {
			detail = "cloned; the repository is empty"
		}
	}
	notes, err := repo.Submodules(ctx, progress)
	if err != nil {
		return nil, "", err
	}
	for _, note := range notes[:min(len(notes), max(0, maxNotes-len(b.notes)))] {
		b.notes = append(b.notes, note)
		detail += "; " + note
	}
	b.state = append(b.state, state)
	return repo, detail, nil
}

// ready describes the booted machine.
func (b *boot) ready() *podv1.BootReady {
	r := &podv1.BootReady{BootId: b.d.bootID, Notes: b.notes}
	for i, s := range b.state {
		if i == 0 {
			r.BaseCommit, r.Branch = s.Base, s.Branch
			continue
		}
		r.Others = append(r.Others, &podv1.CheckedOut{BaseCommit: s.Base, Branch: s.Branch})
	}
	return r
}
