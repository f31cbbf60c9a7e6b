package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/forge/gitea"
	"aloft/internal/control/forge/github"
	"aloft/internal/control/forge/gitlab"
	"aloft/internal/control/gateway"
	"aloft/internal/control/store"
)

// forgeHost is a host at which pull requests can be opened.
type forgeHost struct {
	Kind forge.Kind
	API  string // "" for the usual one of the host
	At   string // in the configuration

	Reviewers map[string]string // logins by e-mail addresses, in lower case
}

// noForge says that a host is not to be asked for pull requests.
const noForge = "none"

// apiPath is where a host of a kind has its API, if it is not one that everybody
// knows.
var apiPath = map[forge.Kind]string{forge.GitHub: "/api/v3", forge.GitLab: "/api/v4", forge.Gitea: "/api/v1"}

// forgeHosts are those of the credentials. Several credentials of one host are
// one forge.
func forgeHosts(c gitConfig) (map[string]forgeHost, error) {
	out := map[string]forgeHost{}
	for i, cred := range c.Credentials {
		at := fmt.Sprintf("git.credentials[%d]", i)
		u, err := url.Parse(cred.URL)
		if err != nil || u.Host == "" {
			if cred.Forge != "" {
				return nil, fmt.Errorf("%s.forge: the url is none of a host", at)
			}
			continue // the gateway says what is wrong with it
		}
		r, err := forge.ParseURL(u.Scheme + "://" + u.Host + "/owner/name")
		if err != nil {
			continue // likewise
		}
		kind, known := forge.KindOf(r.Host)
		switch forge.Kind(cred.Forge) {
		case "":
			if !known && cred.API == "" {
				continue
			}
			if !known {
				return nil, fmt.Errorf("%s.forge is missing: say github, gitlab or gitea, which api speaks", at)
			}
		case noForge:
			continue
		case forge.GitHub, forge.GitLab, forge.Gitea:
			kind = forge.Kind(cred.Forge)
		default:
			return nil, fmt.Errorf("%s.forge: %q is not github, gitlab, gitea or none", at, cred.Forge)
		}
		api := cred.API
		if a, err := url.Parse(api); api != "" && (err != nil || a.Scheme != "https" && a.Scheme != "http" || a.Host == "" || a.User != nil || a.RawQuery != "") {
			return nil, fmt.Errorf("%s.api: %q is no address as https://git.example.com%s", at, api, apiPath[kind])
		}
		if api == "" && u.Scheme == "http" {
			api = "http://" + u.Host + apiPath[kind]
		}
		host := forgeHost{Kind: kind, API: api, At: at, Reviewers: map[string]string{}}
		for address, login := range cred.Reviewers {
			if !strings.Contains(address, "@") || login == "" || strings.ContainsAny(login, " /@") {
				return nil, fmt.Errorf("%s.reviewers: %q: %q is no e-mail address here with a login there, as ada@example.com: ada", at, address, login)
			}
			host.Reviewers[strings.ToLower(address)] = login
		}
		if other, ok := out[r.Host]; ok {
			if other.Kind != host.Kind || other.API != "" && host.API != "" && other.API != host.API {
				return nil, fmt.Errorf("%s and %s say different things of the host %s: give both the same forge and api", other.At, at, r.Host)
			}
			host.API = cmp.Or(other.API, host.API)
			maps.Copy(host.Reviewers, other.Reviewers)
		}
		out[r.Host] = host
	}
	return out, nil
}

// checkApp reads the App's key.
func (c *credentialConfig) checkApp(dir, at string, getenv func(string) string) error {
	if err := fromEnv(&c.App.Key, c.App.KeyEnv, at+".app.key", getenv); err != nil {
		return err
	}
	if err := fromFile(&c.App.Key, dir, c.App.KeyFile, at+".app.key"); err != nil {
		return err
	}
	switch {
	case c.App == appConfig{}:
	case c.App.ID == "" || c.App.Key == "":
		return fmt.Errorf("%s.app: a GitHub App has an id and a key", at)
	case c.Token != "" || c.Username != "":
		return fmt.Errorf("%s: give a token or an app, not both: an App makes tokens, for the user x-access-token", at)
	}
	return nil
}

// gitCredentials are the gateway's. Apps make their tokens when they are needed.
func gitCredentials(c gitConfig) ([]gateway.Credential, error) {
	hosts, err := forgeHosts(c)
	if err != nil {
		return nil, err
	}
	var out []gateway.Credential
	for i, cred := range c.Credentials {
		add := gateway.Credential{URL: cred.URL, Username: cred.Username, Token: cred.Token}
		if cred.App.ID != "" {
			r, err := forge.ParseURL(strings.TrimRight(cred.URL, "/") + "/owner/name")
			if err != nil || hosts[r.Host].Kind != forge.GitHub {
				return nil, fmt.Errorf("git.credentials[%d].app: only GitHub has Apps: say `forge: github` if the host is one", i)
			}
			app, err := github.NewApp(github.AppOptions{Host: r.Host, API: hosts[r.Host].API, ID: cred.App.ID, Key: []byte(cred.App.Key)})
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

// reviewersOf knows who is asked to review an agent's pull requests: the person who
// has made the agent, where the configuration says who that is at the host.
func reviewersOf(c gitConfig, members store.Members) (func(ctx context.Context, a agent.Agent, host string) ([]string, error), error) {
	hosts, err := forgeHosts(c)
	if err != nil {
		return nil, usageError{err}
	}
	return func(ctx context.Context, a agent.Agent, host string) ([]string, error) {
		if len(hosts[host].Reviewers) == 0 {
			return nil, nil
		}
		users, err := members.Users(ctx)
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			if login := hosts[host].Reviewers[strings.ToLower(u.Email)]; u.ID == a.UserID && login != "" {
				return []string{login}, nil
			}
		}
		return nil, nil
	}, nil
}

// newForges are the forges of a configuration, with the tokens that git has.
func newForges(c gitConfig, g *gateway.Gateway) (forge.Set, error) {
	hosts, err := forgeHosts(c)
	if err != nil {
		return nil, usageError{err}
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
		var f forge.Forge
		o := forge.Options{Host: host, API: strings.TrimRight(h.API, "/"), Tokens: tokens}
		switch h.Kind {
		case forge.GitHub:
			f, err = github.New(o)
		case forge.GitLab:
			f, err = gitlab.New(o)
		case forge.Gitea:
			f, err = gitea.New(o)
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", h.At, err)}
		}
		set[host] = f
	}
	return set, nil
}
