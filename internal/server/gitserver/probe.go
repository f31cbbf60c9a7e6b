package gitserver

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/machine/container"
	"aloft/internal/fault"
)

// ProbeTimeout is how long to wait for one host.
const ProbeTimeout = 20 * time.Second

// Probe checks with the host of each credential that the token is valid and may
// push and open pull requests. forges are those of [Config.Forges].
func (c Config) Probe(ctx context.Context, forges forge.Set) (checks []container.Check) {
	for _, cred := range c.Credentials {
		check := container.Check{Name: "forge " + BareURL(cred.URL)}
		// The credential with the longest matching URL wins, so a repository below this URL
		// uses this token.
		r, err := forge.ParseURL(strings.TrimRight(cred.URL, "/") + "/owner/name")
		f, r, unknown := forges.Find(r)
		switch {
		case cred.Forge == NoForge:
			continue
		case err != nil || unknown != nil:
			check.Detail, check.Fix = "cannot open pull requests: the kind of forge is unknown", "add `forge: github`, `gitlab` or `gitea` to this entry of git.credentials, or `forge: none`"
		case cred.App.ID != "":
			check.OK, check.Detail = true, "a GitHub App, which creates a token per repository"
		default:
			check = probeForge(ctx, f, r, check)
		}
		checks = append(checks, check)
	}
	return checks
}

func probeForge(ctx context.Context, f forge.Forge, r forge.Repo, check container.Check) container.Check {
	examining, ok := f.(forge.Examining)
	if !ok {
		return check
	}
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	grant, err := examining.Examine(ctx, r)
	whose := "the token is valid"
	if grant.Login != "" {
		whose = "the token is valid for " + grant.Login
	}
	switch {
	case err != nil:
		check.Detail, check.Fix = strings.ReplaceAll(fault.Of(err).Message, r.String(), "it"), fault.Of(err).Advice
		if ctx.Err() != nil {
			check.Detail, check.Fix = r.Host+" does not answer", "check the address, and the network of this host"
		}
	case len(grant.Lacks) > 0:
		check.Detail = whose + ", but may not push and open pull requests"
		check.Fix = "create a token with " + strings.Join(grant.Lacks, " and ") + ", and set it in git.credentials"
	default:
		check.OK, check.Detail = true, whose
		if !grant.Told {
			check.Detail += "; its permissions are only known when it is used"
		}
	}
	return check
}

// BareURL returns a credential's URL without user, password and query.
func BareURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Sprintf("%.40q", text)
	}
	return u.Host + strings.TrimRight(u.Path, "/")
}
