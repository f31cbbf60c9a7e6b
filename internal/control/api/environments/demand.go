package environments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/machines"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// Builder builds environments. Its methods are safe for concurrent use.
type Builder interface {
	// Demand starts a build, waits until it ends, and returns its record. The
	// build continues if ctx ends.
	Demand(ctx context.Context, w BuildRequest, tell func(string)) (environment.Record, error)
	// Cancel cancels the environment's running build.
	Cancel(environmentID string) error
	// Forget removes an environment's builds, including a running one. Machines
	// that started from them keep running.
	Forget(ctx context.Context, environmentID string) error
	// LogFile returns the path of a build's log. The file may not exist yet.
	LogFile(buildID string) (string, error)
	// Enter connects to the terminals of the machine that a failed build has
	// left. The caller closes the connection.
	Enter(ctx context.Context, buildID string) (machines.PTY, error)
}

// BuildRequest is a request for a build.
type BuildRequest struct {
	Saved   *environment.Saved // nil means the configuration in the repository
	RepoURL string
	UserID  int64
	Again   bool // if true, build even if nothing has changed
}

type startBuildRequestJSON struct {
	_     struct{} `json:"-" additionalProperties:"true"`
	Repo  string   `json:"repo,omitempty" doc:"URL of one of the environment's repositories; default the first"`
	Again bool     `json:"again,omitempty" doc:"build even if nothing has changed"`
}

type startRepositoryBuildRequestJSON struct {
	_     struct{} `json:"-" additionalProperties:"true"`
	Repo  string   `json:"repo" doc:"URL of the repository"`
	Again bool     `json:"again,omitempty" doc:"build even if nothing has changed"`
}

func (s *API) buildRoutes() []rest.Route {
	logParams := []rest.Param{{Name: "follow", Kind: "boolean", Standard: true, Words: "keep the connection open until the build ends"}}
	return []rest.Route{
		{Method: "POST", Path: "/v1/environments/{id}/builds", ID: "startEnvironmentBuild", Long: true,
			Summary: "Start a build now; the reply is JSON lines: progress, and the build at the end. It continues if the client disconnects",
			In:      startBuildRequestJSON{}, Status: 200, Media: rest.JSONLines, Handle: s.startBuild},
		{Method: "POST", Path: "/v1/environments/{id}/builds/{buildId}/cancel", ID: "cancelEnvironmentBuild", Summary: "Cancel a build", Status: 204, Handle: s.cancelBuild},
		{Method: "GET", Path: "/v1/environments/{id}/builds/{buildId}/log", ID: "getEnvironmentBuildLog", Long: true,
			Summary: "Read a build's log until it ends", Query: logParams, Status: 200, Media: "text/plain; charset=utf-8", Handle: s.buildLog},
		{Method: "GET", Path: "/v1/builds", ID: "listRepositoryBuilds", Summary: "List the builds of a repository's own environment, newest first",
			Query:  append(slices.Clone(rest.PageParams), rest.Param{Name: "repo", Kind: "string", Words: "URL of a repository on which you have an agent"}),
			Status: 200, Out: listBuildsResponseJSON{}, Handle: s.listRepositoryBuilds},
		{Method: "POST", Path: "/v1/builds", ID: "startRepositoryBuild", Long: true,
			Summary: "Build a repository's environment now; the reply is like that of startEnvironmentBuild",
			In:      startRepositoryBuildRequestJSON{}, Status: 200, Media: rest.JSONLines, Handle: s.startRepositoryBuild},
		{Method: "GET", Path: "/v1/builds/{buildId}", ID: "getBuild", Summary: "Show a build of any environment", Status: 200, Out: buildJSON{}, Handle: s.getAnyBuild},
		{Method: "POST", Path: "/v1/builds/{buildId}/cancel", ID: "cancelBuild", Summary: "Cancel a build of any environment", Status: 204, Handle: s.cancelBuild},
		{Method: "GET", Path: "/v1/builds/{buildId}/log", ID: "getBuildLog", Long: true,
			Summary: "Read the log of a build of any environment until it ends", Query: logParams, Status: 200, Media: "text/plain; charset=utf-8", Handle: s.buildLog},
		{Method: "GET", Path: "/v1/builds/{buildId}/pty", ID: "openBuildPTY", Summary: "Run programs in the machine of a failed build, over a WebSocket",
			Long: true, Needs: account.Member, Status: 101, Handle: s.openBuildPTY},
	}
}

var errNoBuilder = fault.NotImplemented("environment builds are not enabled on this server").Named(rest.CodeOff)

func (s *API) startBuild(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	var in startBuildRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	e, err := s.environment(r.Context(), who, r.PathValue("id"), true)
	switch {
	case err != nil:
		return err
	case in.Repo == "" && len(e.Repos) == 0:
		return fault.Conflict("the environment has no repository").Named(agents.CodeNoRepository).Hint("add one first")
	case in.Repo == "":
		in.Repo = e.Repos[0]
	case !slices.Contains(e.Repos, in.Repo):
		return fault.Invalid("must be one of the environment's repositories").At("repo")
	}
	if err := s.MayReach(r.Context(), who, []agent.Repo{{URL: in.Repo}}); err != nil {
		return fault.Of(err).At("repo")
	}
	return s.demand(w, r, BuildRequest{Saved: &e, RepoURL: in.Repo, UserID: who.UserID, Again: in.Again})
}

func (s *API) startRepositoryBuild(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	var in startRepositoryBuildRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	url, err := s.repositoryOf(r.Context(), who, in.Repo)
	if err != nil {
		return err
	}
	return s.demand(w, r, BuildRequest{RepoURL: url, UserID: who.UserID, Again: in.Again})
}

// demand starts a build and streams its progress.
func (s *API) demand(w http.ResponseWriter, r *http.Request, req BuildRequest) error {
	if s.Builder == nil {
		return errNoBuilder
	}
	return s.relay(w, r, s.Logger.With("repository", req.RepoURL), func(ctx context.Context, tell func(string)) (triedLine, error) {
		built, err := s.Builder.Demand(ctx, req, tell)
		last := buildOf(built)
		return triedLine{Build: &last}, err
	})
}

// maxOwnAgents is how many of a user's agents are searched for an agent on a
// given repository.
const maxOwnAgents = 1000

// repositoryOf returns the stored form of a repository's URL, if the caller may
// see its builds: the caller must have an agent on that repository, or the
// right to see everyone's agents. An agent on the repository can already read
// everything that the builds contain.
func (s *API) repositoryOf(ctx context.Context, who account.APIKey, raw string) (string, error) {
	url, err := agents.RepoURL(raw, s.AllowFile)
	if err != nil {
		return "", fault.Of(err).At("repo")
	}
	if err := s.MayReach(ctx, who, []agent.Repo{{URL: url}}); err != nil {
		return "", fault.Of(err).At("repo")
	}
	return url, s.mayUseRepository(ctx, who, func(of string) bool { return of == url })
}

func (s *API) mayUseRepository(ctx context.Context, who account.APIKey, is func(url string) bool) error {
	if who.MaySee(0) { // the caller may see every user's agents
		return nil
	}
	q := store.AgentQuery{UserID: who.UserID, IncludeArchived: true, Page: store.Page{Limit: rest.Batch}}
	for range maxOwnAgents / rest.Batch {
		list, err := s.Agents.ListAgents(ctx, q)
		if err != nil {
			return fmt.Errorf("list agents: %w", err)
		}
		for _, a := range list {
			if slices.ContainsFunc(a.Repos, func(r agent.Repo) bool { return is(r.URL) }) {
				return nil
			}
		}
		if len(list) < rest.Batch {
			break
		}
		q.BeforeTime, q.BeforeID = list[len(list)-1].CreatedAt, list[len(list)-1].ID
	}
	return fault.NotFound("you have no agent on this repository").Named("repository_access").Hint("start one with `aloft run` to see its builds")
}

func (s *API) listRepositoryBuilds(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	p, limit, err := rest.Page(r.URL.Query(), rest.BuildList)
	if err != nil {
		return err
	}
	url, err := s.repositoryOf(r.Context(), who, r.URL.Query().Get("repo"))
	if err != nil {
		return err
	}
	return s.writeBuilds(w, r, environment.OfRepository(url), p, limit)
}

func (s *API) getAnyBuild(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	b, err := s.Build(r, who, false)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, buildOf(b))
}

func (s *API) openBuildPTY(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	b, err := s.Build(r, who, false)
	switch {
	case err != nil:
		return err
	case s.Builder == nil:
		return errNoBuilder
	}
	pty, err := s.Builder.Enter(r.Context(), b.ID)
	if err != nil {
		return err
	}
	return machines.Join(w, r, pty)
}

// Build returns the build that a request names: a build of the environment in
// the path, or without one, any build that the caller may see. If the build's
// environment was deleted or never saved, everyone with an agent on the build's
// repository may see it. A draft is visible only to the user who requested it.
func (s *API) Build(r *http.Request, who account.APIKey, change bool) (environment.Record, error) {
	missing := fault.NotFound("no build %s, or you may not see it", fault.Quoted(r.PathValue("buildId"))).Named(rest.CodeNoBuild)
	if id := r.PathValue("id"); id != "" {
		if _, err := s.environment(r.Context(), who, id, change); err != nil {
			return environment.Record{}, err
		}
		missing = fault.NotFound("the environment has no build %s", fault.Quoted(r.PathValue("buildId"))).Named(rest.CodeNoBuild)
	}
	b, err := s.Builds.Build(r.Context(), r.PathValue("buildId"))
	if errors.Is(err, store.ErrNotFound) || err == nil && r.PathValue("id") != "" && b.EnvironmentID != r.PathValue("id") {
		return b, missing
	}
	if err != nil || r.PathValue("id") != "" {
		return b, err
	}
	_, err = s.environment(r.Context(), who, b.EnvironmentID, change)
	switch {
	case err == nil, !fault.Is(err, fault.KindNotFound):
		return b, err
	case b.Trigger == environment.AgentDraft && b.UserID != who.UserID && !who.MaySee(0), len(b.Commits) == 0:
		return b, missing
	case b.Trigger != environment.AgentDraft && b.EnvironmentID != environment.OfRepository(b.URLs()...):
		return b, missing // the environment belongs to another user
	}
	for _, url := range b.URLs() {
		if s.mayUseRepository(r.Context(), who, func(of string) bool { return of == url }) != nil {
			return b, missing
		}
	}
	return b, nil
}

func (s *API) cancelBuild(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	b, err := s.Build(r, who, true)
	switch {
	case err != nil:
		return err
	case s.Builder == nil:
		return errNoBuilder
	case b.Status != environment.InProgress:
		return fault.Conflict("the build has ended as %s", b.Status).Named("build_not_running")
	}
	if err := s.Builder.Cancel(b.EnvironmentID); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// logPoll is how often the log of a running build is read.
const logPoll = 300 * time.Millisecond

func (s *API) buildLog(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	b, err := s.Build(r, who, false)
	if err != nil {
		return err
	}
	if s.Builder == nil {
		return errNoBuilder
	}
	follow, err := rest.Boolean(r.URL.Query(), "follow", true)
	if err != nil {
		return err
	}
	path, err := s.Builder.LogFile(b.ID)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	for errors.Is(err, fs.ErrNotExist) && b.Status == environment.InProgress { // a build has a record before it has a log
		select {
		case <-time.After(logPoll):
		case <-r.Context().Done():
			return nil
		}
		if b, err = s.Builds.Build(r.Context(), b.ID); err != nil {
			return err
		}
		f, err = os.Open(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fault.NotFound("the log of build %s is no longer kept", b.ID).Named("no_log")
	}
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer func() { _ = f.Close() }()
	out := s.NewPush(w, "text/plain; charset=utf-8")
	defer out.Close()
	for {
		ended := !follow || b.Status != environment.InProgress // read the status before the log, so that the last read returns the complete log
		for {
			n, err := io.CopyN(&out.Buf, f, 256<<10)
			if n > 0 || ended {
				if err := out.Flush(); err != nil {
					return nil // the reader has disconnected
				}
			}
			if err != nil {
				break // the end of the log so far
			}
		}
		if ended {
			return nil
		}
		select {
		case <-time.After(logPoll):
		case <-r.Context().Done():
			return nil
		}
		if b, err = s.Builds.Build(r.Context(), b.ID); err != nil {
			return nil // the build was deleted meanwhile
		}
	}
}
