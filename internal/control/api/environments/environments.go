package environments

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// Limits of a saved environment.
const (
	maxEnvironmentName  = 255
	maxEnvironmentRepos = 100
)

type environmentRepoJSON struct {
	URL string `json:"url"`
}

type environmentJSON struct {
	_         struct{}              `json:"-" additionalProperties:"true"`
	ID        string                `json:"id"`
	Owner     string                `json:"owner" enum:"personal,team"`
	Name      string                `json:"name"`
	Repos     []environmentRepoJSON `json:"repos" nullable:"false"`
	CreatedAt time.Time             `json:"createdAt"`
	UpdatedAt time.Time             `json:"updatedAt"`
}

type environmentDetailJSON struct {
	environmentJSON
	EnvironmentJSON string `json:"environmentJson" doc:"content of an environment.json, as text"`
	VersionID       string `json:"versionId"`
}

type listEnvironmentsResponseJSON struct {
	_          struct{}          `json:"-" additionalProperties:"true"`
	Items      []environmentJSON `json:"items" nullable:"false"`
	NextCursor string            `json:"nextCursor,omitempty" minLength:"1"`
}

type createEnvironmentRequestJSON struct {
	_               struct{}              `json:"-" additionalProperties:"true"`
	Owner           string                `json:"owner" enum:"personal,team"`
	Name            string                `json:"name" maxLength:"255"`
	Repos           []environmentRepoJSON `json:"repos" maxItems:"100" nullable:"false"`
	EnvironmentJSON string                `json:"environmentJson"`
}

type updateEnvironmentRequestJSON struct {
	_               struct{}               `json:"-" additionalProperties:"true"`
	Name            *string                `json:"name,omitempty" maxLength:"255"`
	Repos           *[]environmentRepoJSON `json:"repos,omitempty" maxItems:"100" nullable:"false"`
	EnvironmentJSON *string                `json:"environmentJson,omitempty"`
	VersionID       string                 `json:"versionId,omitempty" doc:"version that this changes; the request fails if it is no longer the current one"`
}

type environmentVersionJSON struct {
	_               struct{}  `json:"-" additionalProperties:"true"`
	VersionID       string    `json:"versionId"`
	EnvironmentJSON string    `json:"environmentJson"`
	UserID          int64     `json:"userId" minimum:"0"`
	CreatedAt       time.Time `json:"createdAt"`
}

type environmentHistoryJSON struct {
	_          struct{}                 `json:"-" additionalProperties:"true"`
	Items      []environmentVersionJSON `json:"items" nullable:"false"`
	NextCursor string                   `json:"nextCursor,omitempty" minLength:"1"`
}

func environmentOf(e environment.Saved) environmentJSON {
	out := environmentJSON{ID: e.ID, Owner: "personal", Name: e.Name, Repos: []environmentRepoJSON{}, CreatedAt: rest.Stamp(e.CreatedAt), UpdatedAt: rest.Stamp(e.UpdatedAt)}
	if e.Team {
		out.Owner = "team"
	}
	for _, url := range e.Repos {
		out.Repos = append(out.Repos, environmentRepoJSON{url})
	}
	return out
}

func (s *API) environmentRoutes() []rest.Route {
	return []rest.Route{
		{Method: "POST", Path: "/v1/environments", ID: "createEnvironment", Summary: "Save an environment for repositories without an environment.json",
			Header: []rest.Param{rest.IdempotencyParam}, In: createEnvironmentRequestJSON{}, Status: 201, Out: environmentDetailJSON{}, Handle: s.createEnvironment},
		{Method: "GET", Path: "/v1/environments", ID: "listEnvironments", Summary: "List your saved environments and the team's, newest first",
			Query: rest.PageParams, Status: 200, Out: listEnvironmentsResponseJSON{}, Handle: s.listEnvironments},
		{Method: "GET", Path: "/v1/environments/{id}", ID: "getEnvironment", Summary: "Show a saved environment", Status: 200, Out: environmentDetailJSON{}, Handle: s.getEnvironment},
		{Method: "PATCH", Path: "/v1/environments/{id}", ID: "updateEnvironment", Summary: "Change a saved environment", In: updateEnvironmentRequestJSON{}, Status: 204, Handle: s.updateEnvironment},
		{Method: "DELETE", Path: "/v1/environments/{id}", ID: "deleteEnvironment", Summary: "Delete a saved environment, with its history",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.deleteEnvironment},
		{Method: "GET", Path: "/v1/environments/{id}/history", ID: "listEnvironmentHistory", Summary: "List the versions of an environment, newest first",
			Query: rest.PageParams, Status: 200, Out: environmentHistoryJSON{}, Handle: s.environmentHistory},
		{Method: "GET", Path: "/v1/environments/{id}/history/diff", ID: "diffEnvironmentHistory", Summary: "Show the difference between two versions of an environment",
			Query: []rest.Param{
				{Name: "from", Kind: "string", Words: "the older version; default the one before the newer"},
				{Name: "to", Kind: "string", Words: "the newer version; default the current one"},
			},
			Status: 200, Out: environmentDiffJSON{}, Handle: s.environmentDiff},
		{Method: "GET", Path: "/v1/environments/{id}/builds", ID: "listEnvironmentBuilds", Summary: "List an environment's builds, newest first",
			Query: rest.PageParams, Status: 200, Out: listBuildsResponseJSON{}, Handle: s.listBuilds},
		{Method: "GET", Path: "/v1/environments/{id}/builds/{buildId}", ID: "getEnvironmentBuild", Summary: "Show a build; `active` is true if machines start from it", Status: 200, Out: buildJSON{}, Handle: s.getBuild},
	}
}

// environment returns an environment that the caller may see: their own or the
// team's. Only an admin may change the team's environments. Another user's
// environment is "not found".
func (s *API) environment(ctx context.Context, who account.APIKey, id string, change bool) (environment.Saved, error) {
	missing := fault.NotFound("no environment %s", fault.Quoted(id)).Named(agents.CodeNoEnvironment)
	e, err := s.Saved.Environment(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !e.Team && e.UserID != who.UserID:
		return environment.Saved{}, missing
	case err != nil:
		return environment.Saved{}, fmt.Errorf("read environment: %w", err)
	case e.Team && change:
		return e, teamAdmin(who)
	}
	return e, nil
}

// MayUse implements [Environments] for saved environments.
func (s *API) MayUse(ctx context.Context, who account.APIKey, id string, change bool) error {
	_, err := s.environment(ctx, who, id, change)
	return err
}

func teamAdmin(who account.APIKey) error {
	if !who.Role.Covers(account.Admin) {
		return fault.Denied("only admins may change the team's environments").Named(rest.CodeTeamAdmin).Hint("save your own, which takes precedence over the team's")
	}
	return nil
}

// checkEnvironment rejects settings that could never work.
func checkEnvironment(e environment.Saved) error {
	switch {
	case e.Name == "" || len(e.Name) > maxEnvironmentName:
		return fault.Invalid("must have 1 to %d bytes", maxEnvironmentName).At("name")
	case len(e.Repos) > maxEnvironmentRepos:
		return fault.Invalid("must have at most %d entries", maxEnvironmentRepos).At("repos")
	}
	for i, url := range e.Repos {
		if url == "" || len(url) > agents.MaxRepoURL {
			return fault.Invalid("must be the URL of a repository").At(fmt.Sprintf("repos[%d].url", i))
		}
	}
	if _, findings := environment.Parse("environmentJson", []byte(e.Text)); findings.Worst() == environment.Error {
		for _, f := range findings {
			if f.Severity == environment.Error {
				return fault.Invalid("%s", f).Hint("check the file with `aloft env check`").At("environmentJson")
			}
		}
	}
	return nil
}

func urlsOf(repos []environmentRepoJSON) []string {
	urls := []string{}
	for _, r := range repos {
		urls = append(urls, r.URL)
	}
	return urls
}

func (s *API) createEnvironment(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	var in createEnvironmentRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	if in.Owner != "personal" && in.Owner != "team" {
		return fault.Invalid("must be personal or team").At("owner")
	}
	now := time.Now().UTC()
	e := environment.Saved{
		ID: environment.NewID(), Team: in.Owner == "team", UserID: who.UserID, Name: in.Name, Repos: urlsOf(in.Repos), Text: in.EnvironmentJSON,
		VersionID: environment.NewVersionID(), CreatedAt: now, UpdatedAt: now,
	}
	if err := checkEnvironment(e); err != nil {
		return err
	}
	if e.Team {
		if err := teamAdmin(who); err != nil {
			return err
		}
	}
	if err := s.saveEnvironment(r.Context(), e, true); err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, environmentDetailJSON{environmentOf(e), e.Text, e.VersionID})
}

func (s *API) listEnvironments(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	p, limit, err := rest.Page(r.URL.Query(), rest.EnvironmentList)
	if err != nil {
		return err
	}
	out := listEnvironmentsResponseJSON{Items: []environmentJSON{}}
	list, err := s.Saved.ListEnvironments(r.Context(), who.UserID, p)
	if err != nil {
		return fmt.Errorf("list environments: %w", err)
	}
	list, out.NextCursor = rest.Cut(rest.EnvironmentList, list, limit, func(e environment.Saved) (time.Time, string) { return e.CreatedAt, e.ID })
	for _, e := range list {
		out.Items = append(out.Items, environmentOf(e))
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *API) getEnvironment(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	e, err := s.environment(r.Context(), who, r.PathValue("id"), false)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, environmentDetailJSON{environmentOf(e), e.Text, e.VersionID})
}

func (s *API) updateEnvironment(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	e, err := s.environment(r.Context(), who, r.PathValue("id"), true)
	if err != nil {
		return err
	}
	var in updateEnvironmentRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	renamed := in.Name != nil && *in.Name != e.Name
	if renamed {
		e.Name = *in.Name
	}
	if in.Repos != nil {
		e.Repos = urlsOf(*in.Repos)
	}
	if in.VersionID != "" && in.VersionID != e.VersionID {
		return fault.Conflict("the environment has been changed since").Named("environment_changed").Hint("reload it and repeat your change")
	}
	e.UpdatedAt = time.Now().UTC()
	if in.EnvironmentJSON != nil && *in.EnvironmentJSON != e.Text {
		e.Text, e.VersionID = *in.EnvironmentJSON, environment.NewVersionID()
	}
	if err := checkEnvironment(e); err != nil {
		return err
	}
	if err := s.saveEnvironment(r.Context(), e, renamed); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *API) deleteEnvironment(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	e, err := s.environment(r.Context(), who, r.PathValue("id"), true)
	if err != nil {
		return err
	}
	// Delete the secrets first: without the environment, nobody could name
	// them.
	if err := s.Secrets.DeleteAll(r.Context(), secret.Owner{Kind: secret.OfEnvironment, ID: e.ID}); err != nil {
		return err
	}
	if err := s.Saved.DeleteEnvironment(r.Context(), e.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if s.Builder != nil {
		// If this fails, a later cleanup removes the builds without an
		// environment.
		if err := s.Builder.Forget(context.WithoutCancel(r.Context()), e.ID); err != nil {
			s.Logger.Error("cannot remove the builds of an environment", "environment", e.ID, "error", err)
		}
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: e.ID})
}

func (s *API) environmentHistory(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	p, limit, err := rest.Page(r.URL.Query(), rest.VersionList)
	if err != nil {
		return err
	}
	e, err := s.environment(r.Context(), who, r.PathValue("id"), false)
	if err != nil {
		return err
	}
	list, err := s.Saved.EnvironmentHistory(r.Context(), e.ID, p)
	if err != nil {
		return fmt.Errorf("list versions: %w", err)
	}
	out := environmentHistoryJSON{Items: []environmentVersionJSON{}}
	list, out.NextCursor = rest.Cut(rest.VersionList, list, limit, func(e environment.Version) (time.Time, string) { return e.CreatedAt, e.ID })
	for _, v := range list {
		out.Items = append(out.Items, environmentVersionJSON{VersionID: v.ID, EnvironmentJSON: v.Text, UserID: v.UserID, CreatedAt: rest.Stamp(v.CreatedAt)})
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}
