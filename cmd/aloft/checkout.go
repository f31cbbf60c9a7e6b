package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"aloft/internal/cli"
	"aloft/internal/client"
	"aloft/internal/gitcmd"
)

// A checkout is the git working tree around the current folder.
type checkout struct {
	repo   client.Repo
	commit string // what repo.StartingRef was at the last fetch or push; "" without one
}

// readCheckout returns the checkout's remote repository, and as its starting
// ref the branch at that remote that the current branch follows, or "" for the
// default branch. The remote is the one that the branch follows, or origin.
func readCheckout(ctx context.Context) (checkout, error) {
	if _, err := gitHere(ctx, "rev-parse", "--git-dir"); err != nil {
		return checkout{}, err
	}
	remote, ref := "origin", ""
	branch, err := gitHere(ctx, "symbolic-ref", "--short", "-q", "HEAD")
	if err == nil {
		if r, err := gitHere(ctx, "config", "--get", "branch."+branch+".remote"); err == nil && r != "." {
			remote = r
		}
		ref = branch
		if m, err := gitHere(ctx, "config", "--get", "branch."+branch+".merge"); err == nil {
			ref = strings.TrimPrefix(m, "refs/heads/")
		}
	}
	raw, err := gitHere(ctx, "remote", "get-url", remote)
	if err != nil {
		return checkout{}, fmt.Errorf("this git repository has no remote called %s", remote)
	}
	c := checkout{repo: client.Repo{URL: remoteURL(raw)}}
	if ref != "" {
		if c.commit, err = gitHere(ctx, "rev-parse", "--verify", "-q", "refs/remotes/"+remote+"/"+ref+"^{commit}"); err == nil {
			c.repo.StartingRef = ref
		}
	}
	return c, nil
}

// unseen says what the checkout has that the remote does not, "" if nothing.
func (c checkout) unseen(ctx context.Context) string {
	var parts []string
	args := []string{"rev-list", "--count", "HEAD", "--not", "--remotes"}
	if c.commit != "" {
		args = []string{"rev-list", "--count", c.commit + "..HEAD"}
	}
	if n, err := gitHere(ctx, args...); err == nil && n != "0" {
		parts = append(parts, counted(n, "commit that is not pushed", "commits that are not pushed"))
	}
	if out, err := gitHere(ctx, "status", "--porcelain", "-uno", "--ignore-submodules=dirty"); err == nil && out != "" {
		n := fmt.Sprint(strings.Count(out, "\n") + 1)
		parts = append(parts, counted(n, "file with uncommitted changes", "files with uncommitted changes"))
	}
	return strings.Join(parts, " and ")
}

func counted(n, one, several string) string {
	if n == "1" {
		return "1 " + one
	}
	return n + " " + several
}

// remoteURL returns a remote's URL as a server can use it: without a user's
// name and password, unless it is an ssh URL, and with a scheme if it is a path.
func remoteURL(raw string) string {
	if filepath.IsAbs(raw) {
		return (&url.URL{Scheme: "file", Path: raw}).String()
	}
	if u, err := url.Parse(raw); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		u.User = nil
		return u.String()
	}
	return raw
}

// gitHere returns what git prints in the current folder, without the final line
// feed. The error is git's.
func gitHere(ctx context.Context, args ...string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	out, err := gitcmd.Git{Home: home}.Command(ctx, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		said, _, _ := strings.Cut(string(exit.Stderr), "\n")
		err = fmt.Errorf("git: %s", strings.TrimPrefix(said, "fatal: "))
	}
	return strings.TrimRight(string(out), "\r\n"), err
}

// showCheckout says on standard error which repository is used, and what the
// agent will not see of the checkout.
func (a *app) showCheckout(ctx context.Context, c checkout, refs []string) {
	if a.out.JSON() {
		return
	}
	from := "its default branch"
	if len(refs) > 0 {
		from = refs[0]
	}
	a.out.Note("repository: %s, from %s", cli.Line(c.repo.URL, 0), cli.Line(from, 0))
	if unseen := c.unseen(ctx); unseen != "" {
		a.out.Note("The agent does not see what is only here: %s.", unseen)
	}
}
