package environments

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

type buildRepoJSON struct {
	URL    string `json:"url"`
	Commit string `json:"commit"`
}

type buildJSON struct {
	_             struct{}        `json:"-" additionalProperties:"true"`
	ID            string          `json:"id"`
	EnvironmentID string          `json:"environmentId"`
	Status        string          `json:"status" enum:"IN_PROGRESS,SUCCEEDED,FAILED,CANCELLED,SKIPPED"`
	Trigger       string          `json:"trigger" enum:"RECURRING,CONFIG_CHANGE,MANUAL,AGENT_DRAFT"`
	FailureType   string          `json:"failureType,omitempty" enum:"INSTALL_FAILED,TERMINAL_FAILURE"`
	Message       string          `json:"message,omitempty"`
	ExitCode      *int            `json:"exitCode,omitempty"`
	Repos         []buildRepoJSON `json:"repos" nullable:"false"`
	CreatedAt     time.Time       `json:"createdAt"`
	EndedAt       *time.Time      `json:"endedAt,omitempty"`
}

type listBuildsResponseJSON struct {
	_          struct{}    `json:"-" additionalProperties:"true"`
	Items      []buildJSON `json:"items" nullable:"false"`
	NextCursor string      `json:"nextCursor,omitempty" minLength:"1"`
}

func buildOf(b environment.Record) buildJSON {
	out := buildJSON{
		ID: b.ID, EnvironmentID: b.EnvironmentID, Status: string(b.Status), Trigger: string(b.Trigger), FailureType: string(b.FailureType),
		Message: b.Message, ExitCode: b.ExitCode, Repos: []buildRepoJSON{}, CreatedAt: rest.Stamp(b.CreatedAt),
	}
	for _, c := range b.Commits {
		out.Repos = append(out.Repos, buildRepoJSON(c))
	}
	if b.EndedAt != nil {
		at := rest.Stamp(*b.EndedAt)
		out.EndedAt = &at
	}
	return out
}

func (s *API) listBuilds(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	p, limit, err := rest.Page(r.URL.Query(), rest.BuildList)
	if err != nil {
		return err
	}
	e, err := s.environment(r.Context(), who, r.PathValue("id"), false)
	if err != nil {
		return err
	}
	return s.writeBuilds(w, r, e.ID, p, limit)
}

// writeBuilds writes a page of an environment's builds.
func (s *API) writeBuilds(w http.ResponseWriter, r *http.Request, environmentID string, p store.Page, limit int) error {
	out := listBuildsResponseJSON{Items: []buildJSON{}}
	list, err := s.Builds.ListBuilds(r.Context(), environmentID, p)
	if err != nil {
		return fmt.Errorf("list builds: %w", err)
	}
	list, out.NextCursor = rest.Cut(rest.BuildList, list, limit, func(e environment.Record) (time.Time, string) { return e.CreatedAt, e.ID })
	for _, b := range list {
		out.Items = append(out.Items, buildOf(b))
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *API) getBuild(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	e, err := s.environment(r.Context(), who, r.PathValue("id"), false)
	if err != nil {
		return err
	}
	if r.PathValue("buildId") == "active" {
		return s.getActiveBuild(w, r, e)
	}
	b, err := s.Build(r, who, false)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, buildOf(b))
}

func (s *API) getActiveBuild(w http.ResponseWriter, r *http.Request, e environment.Saved) error {
	b, err := s.Builds.ActiveBuild(r.Context(), e.ID)
	if errors.Is(err, store.ErrNotFound) {
		return fault.NotFound("no build of this environment has succeeded yet").Named(rest.CodeNoBuild).
			Hint("the first agent on one of its repositories starts one")
	}
	if err != nil {
		return fmt.Errorf("read build: %w", err)
	}
	return rest.WriteJSON(w, http.StatusOK, buildOf(b))
}
