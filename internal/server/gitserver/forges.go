package gitserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"strings"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/gitea"
	"aloft/internal/control/forge/github"
	"aloft/internal/control/forge/gitlab"
	"aloft/internal/control/gateway"
)

// Host is a host on which pull requests can be opened.
type Host struct {
	Kind forge.Kind
	API  string // "" for the host's default
	At   string // key in the configuration, for errors

	Reviewers map[string]string // logins by lower-case e-mail address
}

// NoForge is the value of forge for a host without pull requests.
const NoForge = "none"

// apiPath is the path of the API on self-hosted forges, by kind.
var apiPath = map[forge.Kind]string{forge.GitHub: "/api/v3", forge.GitLab: "/api/v4", forge.Gitea: "/api/v1"}

// Hosts returns the forges of the credentials, by host. Credentials with the same
// host share one forge.
func (c Config) Hosts() (map[string]Host, error) {
	out := map[string]Host{}
	for i, cred := range c.Credentials {
		at := fmt.Sprintf("git.credentials[%d]", i)
		u, err := url.Parse(cred.URL)
		if err != nil || u.Host == "" {
			if cred.Forge != "" {
				return nil, fmt.Errorf("%s.forge: url has no host", at)
			}
			continue // the gateway reports this error
		}
		r, err := forge.ParseURL(u.Scheme + "://" + u.Host + "/owner/name")
		if err != nil {
			continue // the gateway reports this error
		}
		kind, known := forge.KindOf(r.Host)
		switch forge.Kind(cred.Forge) {
		case "":
			if !known && cred.API == "" {
				continue
			}
			if !known {
				return nil, fmt.Errorf("%s.forge is missing: set it to the kind of api: github, gitlab or gitea", at)
			}
		case NoForge:
			continue
		case forge.GitHub, forge.GitLab, forge.Gitea:
			kind = forge.Kind(cred.Forge)
		default:
			return nil, fmt.Errorf("%s.forge: invalid value %q: must be github, gitlab, gitea or none", at, cred.Forge)
		}
		api := cred.API
		if a, err := url.Parse(api); api != "" && (err != nil || a.Scheme != "https" && a.Scheme != "http" || a.Host == "" || a.User != nil || a.RawQuery != "") {
			return nil, fmt.Errorf("%s.api: invalid address %q: use an address such as https://git.example.com%s", at, api, apiPath[kind])
		}
		if api == "" && u.Scheme == "http" {
			api = "http://" + u.Host + apiPath[kind]
		}
		host := Host{Kind: kind, API: api, At: at, Reviewers: map[string]string{}}
		for address, login := range cred.Reviewers {
			if !strings.Contains(address, "@") || login == "" || strings.ContainsAny(login, " /@") {
				return nil, fmt.Errorf("%s.reviewers: invalid entry %q: %q: map an e-mail address to a login, such as ada@example.com: ada", at, address, login)
			}
			host.Reviewers[strings.ToLower(address)] = login
		}
		if other, ok := out[r.Host]; ok {
			if other.Kind != host.Kind || other.API != "" && host.API != "" && other.API != host.API {
				return nil, fmt.Errorf("%s and %s disagree about the host %s: give both the same forge and api", other.At, at, r.Host)
			}
			host.API = cmp.Or(other.API, host.API)
			maps.Copy(host.Reviewers, other.Reviewers)
		}
		out[r.Host] = host
	}
	return out, nil
}

// app returns the credential's GitHub App, and the host with the path to which
// the credential applies.
func (c Credential) app(hosts map[string]Host) (*github.App, forge.Repo, error) {
	of, err := c.Covers()
	if err != nil || hosts[of.Host].Kind != forge.GitHub {
		return nil, of, errors.New("only GitHub supports apps: set `forge: github` if the host runs GitHub")
	}
	app, err := github.NewApp(github.AppOptions{Host: of.Host, API: hosts[of.Host].API, ID: c.App.ID, Key: []byte(c.App.Key)})
	return app, of, err
}

// Covers returns the host of a credential and the path prefix to which it is
// limited; the path is "" for the whole host.
func (c Credential) Covers() (forge.Repo, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return forge.Repo{}, err
	}
	of, err := forge.ParseURL(u.Scheme + "://" + u.Host + "/owner/name")
	of.Path = strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
	return of, err
}

// Catalog returns the catalog of the repositories that the credentials can
// access, for hosts that can list them.
func (c Config) Catalog(logger *slog.Logger) (*forge.Catalog, error) {
	hosts, err := c.Hosts()
	if err != nil {
		return nil, err
	}
	var sources []forge.Source
	for i, cred := range c.Credentials {
		add := forge.Source{URL: cred.URL}
		of, err := cred.Covers()
		host, known := hosts[of.Host]
		switch {
		case err != nil, !known, cred.Forge == NoForge: // used only for git
		case cred.App.ID != "":
			app, _, err := cred.app(hosts)
			if err != nil {
				return nil, fmt.Errorf("git.credentials[%d].app: %w", i, err)
			}
			add.List = func(ctx context.Context) ([]forge.Repo, error) { return app.Repositories(ctx, of) }
		case cred.Token != "":
			f, err := host.Open(of.Host, forge.Token(cred.Token))
			if err != nil {
				return nil, fmt.Errorf("git.credentials[%d]: %w", i, err)
			}
			if listing, ok := f.(forge.Listing); ok {
				add.List = func(ctx context.Context) ([]forge.Repo, error) { return listing.Repositories(ctx, of) }
			}
		}
		sources = append(sources, add)
	}
	return forge.NewCatalog(sources, logger), nil
}

// AppForges returns a function that returns the forge of a repository with the
// credentials of the GitHub App that matches its URL best, or nil if there is
// none.
func (c Config) AppForges() (func(forge.Repo) forge.Forge, error) {
	hosts, err := c.Hosts()
	if err != nil {
		return nil, err
	}
	type speaker struct {
		of    forge.Repo
		forge forge.Forge
	}
	var all []speaker
	for i, cred := range c.Credentials {
		if cred.App.ID == "" {
			continue
		}
		app, of, err := cred.app(hosts)
		if err == nil {
			add := speaker{of: of}
			add.forge, err = hosts[of.Host].Open(of.Host, app.Token)
			all = append(all, add)
		}
		if err != nil {
			return nil, fmt.Errorf("git.credentials[%d].app: %w", i, err)
		}
	}
	return func(r forge.Repo) forge.Forge {
		var best *speaker
		for i, a := range all {
			below := a.of.Path == "" || r.Path == a.of.Path || strings.HasPrefix(r.Path, a.of.Path+"/")
			if a.of.Host == r.Host && below && (best == nil || len(a.of.Path) > len(best.of.Path)) {
				best = &all[i]
			}
		}
		if best == nil {
			return nil
		}
		return best.forge
	}, nil
}

// Open returns the adapter of the host, with tokens.
func (h Host) Open(name string, tokens forge.Tokens) (f forge.Forge, err error) {
	o := forge.Options{Host: name, API: strings.TrimRight(h.API, "/"), Tokens: tokens}
	switch h.Kind {
	case forge.GitHub:
		f, err = github.New(o)
	case forge.GitLab:
		f, err = gitlab.New(o)
	case forge.Gitea:
		f, err = gitea.New(o)
	}
	return f, err
}

// GatewayCredentials returns the gateway's credentials. Apps create tokens on demand.
func (c Config) GatewayCredentials() ([]gateway.Credential, error) {
	hosts, err := c.Hosts()
	if err != nil {
		return nil, err
	}
	var out []gateway.Credential
	for i, cred := range c.Credentials {
		add := gateway.Credential{URL: cred.URL, Username: cred.Username, Token: cred.Token}
		if cred.App.ID != "" {
			app, _, err := cred.app(hosts)
			if err != nil {
				return nil, fmt.Errorf("git.credentials[%d].app: %w", i, err)
			}
			add.Source = func(ctx context.Context, repoURL string) (string, error) {
				r, err := forge.ParseURL(repoURL)
				if err != nil {
					return "", err
				}
				return app.Token(ctx, r)
			}
		}
		out = append(out, add)
	}
	return out, nil
}

// Reviewers returns the reviewers that a configuration names, by host and by the
// e-mail address of the member whose pull requests they review.
func (c Config) Reviewers() (map[string]map[string]string, error) {
	hosts, err := c.Hosts()
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for host, of := range hosts {
		all[host] = of.Reviewers
	}
	return all, nil
}

// Forges returns the forges of the credentials, which use git's tokens.
func (c Config) Forges(g *gateway.Gateway) (forge.Set, error) {
	hosts, err := c.Hosts()
	if err != nil {
		return nil, err
	}
	tokens := func(ctx context.Context, r forge.Repo) (string, error) {
		for _, scheme := range []string{"https://", "http://"} {
			if token, err := g.Token(ctx, scheme+r.String()); token != "" || err != nil {
				return token, err
			}
		}
		return "", nil
	}
	set := forge.Set{}
	for host, h := range hosts {
		f, err := h.Open(host, tokens)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.At, err)
		}
		set[host] = f
	}
	return set, nil
}
