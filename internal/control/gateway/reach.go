package gateway

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"aloft/internal/control/mirror"
	"aloft/internal/control/repourl"
	"aloft/internal/fault"
)

// ReachRequest lists the repositories that a run asks to fetch in addition to
// its own repositories. Everything except Allow comes from the repositories and
// is untrusted.
type ReachRequest struct {
	Own   []Source
	Named []string // names such as github.com/org/repo, or URLs
	// Allow lists URL prefixes of the repositories that, according to the
	// operator, a repository may name. If Ruled is false, Allow is ignored: a
	// repository may name only repositories of its own owner on its own server.
	Allow []string
	Ruled bool
	// May reports whether the run's user may access a repository; nil allows all.
	May func(ctx context.Context, repoURL string) bool
}

// Source is a repository of the run itself.
type Source struct {
	URL string
	Ref string // branch, tag or commit; "" means the default branch
}

// Reached is the result for a [ReachRequest].
type Reached struct {
	Read    []string // URLs that are granted
	Hosts   []string // hosts of all named repositories, granted or not
	Refused []string // messages for users about repositories that were not granted
}

// Limits of the search, since its input is untrusted.
const (
	maxReached     = 100
	maxModulesFile = 256 << 10 // maximum size of .gitmodules in bytes
	reachLimit     = time.Minute
)

const modulesFile = ".gitmodules"

// Reach returns the repositories that a run may fetch in addition to its own:
// their declared dependencies and, recursively, their submodules, as far as req
// allows. It reads nested submodules from the default branch, and ignores
// unreadable files.
func (g *Gateway) Reach(ctx context.Context, req ReachRequest) Reached {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	var out Reached
	var own []repourl.Repo
	for _, s := range req.Own {
		if r, err := repourl.Parse(s.URL); err == nil {
			own = append(own, r)
		}
	}
	seen := map[string]bool{}
	for _, r := range own {
		seen[r.Key()] = true
	}
	// grant records the repository, and reports whether it was new and is
	// granted.
	grant := func(r repourl.Repo) bool {
		if host := r.Name(); host != "" && !slices.Contains(out.Hosts, host) {
			out.Hosts = append(out.Hosts, host)
		}
		if seen[r.Key()] || len(out.Read) == maxReached || !req.allows(own, r) || req.May != nil && !req.May(ctx, r.String()) {
			return false
		}
		seen[r.Key()] = true
		out.Read = append(out.Read, r.String())
		return true
	}
	for _, name := range req.Named {
		r, err := dependency(own, name)
		if err != nil {
			out.Refused = append(out.Refused, "The dependency "+mirror.Plain(name)+" cannot be read: "+fault.Of(err).Message+".")
			continue
		}
		if !grant(r) && !seen[r.Key()] {
			out.Refused = append(out.Refused, "The dependency "+mirror.Plain(name)+" is not available to this agent: "+req.reason())
		}
	}
	look := slices.Clone(req.Own)
	for len(look) > 0 {
		from := look[0]
		look = look[1:]
		for _, r := range g.submodules(ctx, from) {
			r = likeOwn(own, r)
			if grant(r) {
				look = append(look, Source{URL: r.String()})
			}
		}
	}
	return out
}

// allows applies the rules of the request.
func (w ReachRequest) allows(own []repourl.Repo, r repourl.Repo) bool {
	if r.Scheme() == "file" {
		return false
	}
	if w.Ruled {
		return slices.ContainsFunc(w.Allow, r.Below)
	}
	return slices.ContainsFunc(own, func(o repourl.Repo) bool {
		return o.Name() == r.Name() && o.Owner() == r.Owner() && (o.Scheme() != r.Scheme() || o.Host() == r.Host())
	})
}

func (w ReachRequest) reason() string {
	if w.Ruled {
		return "git.dependencies in the server's configuration does not list it. An administrator can add it there, or you can add it to the agent's repositories."
	}
	return "a repository may only name repositories of its own owner. An administrator can allow others with git.dependencies in the server's configuration, or you can add it to the agent's repositories."
}

// dependency parses a dependency named in environment.json. A name without a
// scheme uses the protocol of the agent's own repositories on that host, or
// else https.
func dependency(own []repourl.Repo, name string) (repourl.Repo, error) {
	if strings.Contains(name, "://") || strings.Contains(strings.SplitN(name, "/", 2)[0], "@") {
		r, err := repourl.Parse(name)
		return likeOwn(own, r), err
	}
	r, err := repourl.Parse("https://" + name)
	if err != nil {
		return r, err
	}
	return likeOwn(own, r), nil
}

// likeOwn returns r with the protocol of one of the agent's own repositories
// that has the same host and owner, because the server has a credential for
// that.
func likeOwn(own []repourl.Repo, r repourl.Repo) repourl.Repo {
	for _, o := range own {
		if o.Name() == r.Name() && o.Scheme() != r.Scheme() && o.Scheme() != "file" && r.Scheme() != "file" {
			return o.Sibling(r)
		}
	}
	return r
}

// submodules returns the repositories named in .gitmodules of a source.
func (g *Gateway) submodules(ctx context.Context, from Source) []repourl.Repo {
	base, err := repourl.Parse(from.URL)
	if err != nil {
		return nil
	}
	tree, err := g.Files(ctx, from.URL, from.Ref, []string{modulesFile})
	if err != nil {
		return nil
	}
	blob, ok := tree.Files[modulesFile]
	if !ok || blob.Size > maxModulesFile {
		return nil
	}
	data, err := g.Contents(ctx, from.URL, blob, maxModulesFile)
	if err != nil {
		g.log.Warn("cannot read submodules", "repo", base.String(), "err", err)
		return nil
	}
	return modules(base, data)
}

var moduleURL = regexp.MustCompile(`^\s*(?:\[[^\]]*\])?\s*(?i:url)\s*=\s*(.*?)\s*$`)

// modules parses .gitmodules. If it parses a file differently from git, it only
// misses a repository; it grants no access.
func modules(base repourl.Repo, data []byte) []repourl.Repo {
	var out []repourl.Repo
	for line := range strings.Lines(string(data)) {
		m := moduleURL.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil || len(out) == maxReached {
			continue
		}
		url := strings.Trim(m[1], `"`)
		if strings.HasPrefix(url, "./") || strings.HasPrefix(url, "../") {
			url = relative(base.String(), url)
		}
		if r, err := repourl.Parse(url); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// relative resolves a URL relative to a repository's URL by git's rules: each
// .. removes one segment.
func relative(base, to string) string {
	base = strings.TrimRight(base, "/")
	for {
		if rest, ok := strings.CutPrefix(to, "./"); ok {
			to = rest
			continue
		}
		rest, ok := strings.CutPrefix(to, "../")
		if !ok {
			return fmt.Sprintf("%s/%s", base, to)
		}
		to = rest
		cut := strings.LastIndexByte(base, '/')
		if cut < 0 {
			return ""
		}
		base = base[:cut]
	}
}
