package server

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/gateway"
	"aloft/internal/control/machine/container"
	"aloft/internal/fault"
)

// forgeTime is how long doctor waits for one host.
const forgeTime = 20 * time.Second

// ProbeForges checks with the host of each credential that the token is valid and
// may push and open pull requests.
func ProbeForges(ctx context.Context, c gitConfig) (checks []container.Check, err error) {
	credentials, err := gitCredentials(c)
	if err != nil {
		return nil, UsageError{err}
	}
	dir, err := os.MkdirTemp("", "aloft-doctor-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	g, err := gateway.New(gateway.Config{Dir: dir, Credentials: credentials, Environ: os.Environ()})
	if err != nil {
		return nil, UsageError{err}
	}
	defer g.Close()
	forges, err := newForges(c, g)
	if err != nil {
		return nil, err
	}
	for _, cred := range c.Credentials {
		check := container.Check{Name: "forge " + bareURL(cred.URL)}
		// The credential with the longest matching URL wins, so a repository below this URL
		// uses this token.
		r, err := forge.ParseURL(strings.TrimRight(cred.URL, "/") + "/owner/name")
		f, r, unknown := forges.Find(r)
		switch {
		case cred.Forge == noForge:
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
	return checks, nil
}

func probeForge(ctx context.Context, f forge.Forge, r forge.Repo, check container.Check) container.Check {
	examining, ok := f.(forge.Examining)
	if !ok {
		return check
	}
	ctx, cancel := context.WithTimeout(ctx, forgeTime)
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

// bareURL returns a credential's URL without user, password and query.
func bareURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Sprintf("%.40q", text)
	}
	return u.Host + strings.TrimRight(u.Path, "/")
}
