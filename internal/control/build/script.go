package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// scripts is the UUID namespace for ids that KeepScript generates, so that
// repeating a call yields the same id.
var scripts = uuid.MustParse("b0a0f7a8-3c5e-4a63-9d0e-5a1f7d5c6e21")

// KeepScript stores script as the install command of the environment that is
// saved for the agent's user and repository. It creates that environment if
// needed. It is idempotent. It rejects scripts that the agent's own environment
// forbids, and changes that would affect other people's machines, because the
// agent may have been manipulated.
func (b *Builder) KeepScript(ctx context.Context, a agent.Agent, callID, script string) (environment.Saved, error) {
	if b.Saved == nil {
		return environment.Saved{}, fault.NotImplemented("saved environments are not enabled on this server")
	}
	if len(a.Repos) == 0 {
		return environment.Saved{}, fault.Conflict("the agent has no repository to save an environment for").Named("repository_required")
	}
	repo := a.Repos[0]
	p, err := b.plan(ctx, sourceOf(a, cmp.Or(a.Origin, repo.StartingRef)))
	if err != nil {
		return environment.Saved{}, err
	}
	if p.deleted { // the script would have no effect on the agent itself
		return environment.Saved{}, fault.Conflict("the environment %s of this agent was deleted", a.Env.ID).Named(codeNoEnvironment).
			Hint("tell the user what to install")
	}
	if err := mayKeep(p); err != nil {
		return environment.Saved{}, err
	}
	version := "envv-" + uuid.NewSHA1(scripts, []byte(a.ID+"\x00"+callID)).String()
	now := time.Now().UTC()
	id := cmp.Or(p.savedID, p.scriptID)
	if id == "" { // derived from the user and the repository, so that retries agree
		id = "env-" + uuid.NewSHA1(scripts, fmt.Appendf(nil, "%d\x00%s", a.UserID, secret.Repo(repo.URL))).String()
	}
	e, err := b.Saved.Environment(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		e, err = environment.Saved{ID: id, UserID: a.UserID, Name: scriptName(repo.URL), Repos: []string{repo.URL}, CreatedAt: now}, nil
	}
	if err != nil {
		return e, fmt.Errorf("read environment: %w", err)
	}
	versions, err := b.Saved.EnvironmentHistory(ctx, id, store.Page{Limit: maxSaved})
	if err != nil {
		return e, fmt.Errorf("list versions: %w", err)
	}
	if slices.ContainsFunc(versions, func(v environment.Version) bool { return v.ID == version }) {
		e.VersionID = version
		return e, nil // an earlier attempt of this call has stored it
	}
	switch {
	case e.Team:
		return e, fault.Denied("this repository uses the team environment %q", e.Name).Named("environment_of_the_team").
			Hint("tell the user: the admin changes it with `aloft env update %s`", e.ID)
	case len(e.Repos) > 1:
		return e, fault.Denied("the environment %q is for other repositories too", e.Name).Named("environment_shared").
			Hint("tell the user: they change it with `aloft env update %s`", e.ID)
	}
	if !e.For(repo.URL) {
		e.Repos = []string{repo.URL}
	}
	if e.Text, err = environment.WithInstall(e.Text, script); err != nil {
		return e, fault.Conflict("the saved environment is invalid: %v", err).Named("environment_unreadable").
			Hint("tell the user: they can fix it with `aloft env update %s`", e.ID)
	}
	e.VersionID, e.UpdatedAt, e.Script = version, now, true
	return e, b.Saved.PutEnvironment(ctx, e)
}

// scriptName returns a name for an environment that an agent creates. It is
// unique per repository, so that env.name can tell such environments apart.
func scriptName(repoURL string) string {
	name := "set up by an agent: " + secret.Repo(repoURL)
	return strings.ToValidUTF8(name[:min(len(name), 255)], "")
}

// mayKeep returns a fault if the environment does not allow agents to change
// the install command.
func mayKeep(p Plan) error {
	e := p.Environment
	switch {
	case e.MaySave() && (p.file == "" || e.Install == "" || p.scriptID != ""):
		return nil
	case e.MaySave():
		return fault.Conflict("the repository sets install in %s", p.file).Named("environment_in_repository").
			Hint("change install in that file, and commit it")
	case e.Base() == environment.BaseDockerfile, e.Base() == environment.BaseImage:
		return fault.Denied("machines of this repository are built from its %s, which agents cannot change", e.Base()).Named("agent_may_not_save").
			Hint("change that, or install in %s", p.Where)
	}
	return fault.Denied("agentCanUpdateSnapshot is false in %s", p.Where).Named("agent_may_not_save").
		Hint("tell the user what to install")
}
