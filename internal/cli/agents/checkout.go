package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"

	"aloft/internal/cli"
	"aloft/internal/client"
	"aloft/internal/gitcmd"
)

// A checkout is the git working tree around the current folder.
type checkout struct {
	with   gitcmd.Git
	repo   client.Repo
	remote string // the remote's name in git
	commit string // commit of repo.StartingRef at the last fetch or push; "" if there was none
	byRoot bool   // whether root reads another user's checkout
}

// readCheckout returns the checkout's remote repository and a starting ref: the
// current branch's upstream branch, or "" for the default branch. The remote is
// the upstream's, or else origin.
func (a *app) readCheckout(ctx context.Context) (checkout, error) {
	// Under sudo, git accepts a checkout of the user who called sudo.
	caller := a.Getenv("SUDO_UID")
	c := checkout{with: gitcmd.Git{Env: []string{"SUDO_UID=" + caller}}, byRoot: caller != ""}
	if _, err := c.git(ctx, "rev-parse", "--git-dir"); err != nil {
		return c, err
	}
	remote, ref := "origin", ""
	branch, err := c.git(ctx, "symbolic-ref", "--short", "-q", "HEAD")
	if err == nil {
		if r, err := c.git(ctx, "config", "--get", "branch."+branch+".remote"); err == nil && r != "." {
			remote = r
		}
		ref = branch
		if m, err := c.git(ctx, "config", "--get", "branch."+branch+".merge"); err == nil {
			ref = strings.TrimPrefix(m, "refs/heads/")
		}
	}
	c.remote = remote
	raw, err := c.git(ctx, "remote", "get-url", remote)
	if err != nil {
		return c, fmt.Errorf("this git repository has no remote called %s", remote)
	}
	c.repo.URL = remoteURL(raw)
	if ref != "" {
		if c.commit, err = c.git(ctx, "rev-parse", "--verify", "-q", "refs/remotes/"+remote+"/"+ref+"^{commit}"); err == nil {
			c.repo.StartingRef = ref
		}
	}
	return c, nil
}

// unseen describes the commits and changes of the checkout that the remote
// lacks; "" if there are none.
func (c checkout) unseen(ctx context.Context) string {
	var parts []string
	args := []string{"rev-list", "--count", "HEAD", "--not", "--remotes"}
	if c.commit != "" {
		args = []string{"rev-list", "--count", c.commit + "..HEAD"}
	}
	if n, err := c.git(ctx, args...); err == nil && n != "0" {
		parts = append(parts, counted(n, "commit that is not pushed", "commits that are not pushed"))
	}
	if c.byRoot {
		return strings.Join(parts, " and ") // git status runs filters that the checkout's configuration names
	}
	if out, err := c.git(ctx, "status", "--porcelain", "-uno", "--ignore-submodules=dirty"); err == nil && out != "" {
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

// remoteURL returns a remote's URL in a form that a server can use. It adds a
// scheme to a path. Unless it is an ssh URL, it removes user name and password.
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

// git runs git in the current folder, and returns its output without the final
// line feed. The error is git's.
func (c checkout) git(ctx context.Context, args ...string) (string, error) {
	out, err := c.whole(ctx, args...)
	return strings.TrimRight(out, "\r\n"), err
}

// whole runs git in the current folder, and returns its complete output. The
// error is git's.
func (c checkout) whole(ctx context.Context, args ...string) (string, error) {
	out, err := c.with.Command(ctx, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		said, _, _ := strings.Cut(string(exit.Stderr), "\n")
		err = fmt.Errorf("git: %s", strings.TrimPrefix(said, "fatal: "))
	}
	return string(out), err
}

// errNoRepo is the error of a command that needs a repository and has none.
var errNoRepo = errors.New("missing --repo: the URL of the repository to work on")

// usualRepo returns the repository of the current checkout, or else the team's
// default repository. It prints the choice to standard error, with ref if ref
// is not "", and the parts of the checkout that the agent will not see. If
// there is no repository, the error wraps [errNoRepo].
func (a *app) usualRepo(ctx context.Context, ref string) (client.Repo, error) {
	here, err := a.readCheckout(ctx)
	repo, unseen := here.repo, ""
	if err == nil {
		unseen = here.unseen(ctx)
	} else if repo, err = a.defaultRepo(ctx, err); err != nil {
		return repo, err
	}
	repo.StartingRef = cmp.Or(ref, repo.StartingRef)
	if !a.Out.JSON() {
		a.Out.Note("repository: %s, from %s", cli.Line(repo.URL, 0), cli.Line(cmp.Or(repo.StartingRef, "its default branch"), 0))
		if unseen != "" {
			a.Out.Note("Not visible to the agent: %s.", unseen)
		}
	}
	return repo, nil
}

// defaultRepo returns the team's default repository. If there is none, the
// error also says why there is no checkout, with noCheckout.
func (a *app) defaultRepo(ctx context.Context, noCheckout error) (client.Repo, error) {
	c, err := a.Connect()
	if err != nil {
		return client.Repo{}, err
	}
	settings, err := c.Settings(ctx)
	if err != nil {
		return client.Repo{}, err
	}
	url, ok := settings["defaultRepository"].(string)
	if !ok || url == "" {
		return client.Repo{}, fmt.Errorf("%w (%w)", errNoRepo, noCheckout)
	}
	return client.Repo{URL: url}, nil
}
