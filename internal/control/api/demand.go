package api

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
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// Builder makes saved environments ready. Its methods are safe for concurrent use.
type Builder interface {
	// Demand makes a build for one of the environment's repositories, and returns
	// it when it has ended. The build goes on when ctx ends.
	Demand(ctx context.Context, e environment.Saved, repoURL string, tell func(string)) (environment.Record, error)
	// Cancel ends the environment's build that is under way.
	Cancel(environmentID string) error
	// LogFile is where the log of a build is, or would be.
	LogFile(buildID string) (string, error)
}

type startBuildRequestJSON struct {
	_    struct{} `json:"-" additionalProperties:"true"`
	Repo string   `json:"repo,omitempty" doc:"URL of one of the environment's repositories; the first if absent"`
}

func (s *server) buildRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/environments/{id}/builds", id: "startEnvironmentBuild", long: true,
			summary: "Make a build now; the reply is JSON lines: news, and the build at the end. It goes on when nobody reads",
			in:      startBuildRequestJSON{}, status: 200, media: jsonLines, handle: s.startBuild},
		{method: "POST", path: "/v1/environments/{id}/builds/{buildId}/cancel", id: "cancelEnvironmentBuild", summary: "Cancel a build", status: 204, handle: s.cancelBuild},
		{method: "GET", path: "/v1/environments/{id}/builds/{buildId}/log", id: "getEnvironmentBuildLog", long: true,
			summary: "Read what a build says, until it has ended", status: 200, media: "text/plain; charset=utf-8", handle: s.buildLog},
	}
}

var errNoBuilder = fault.NotImplemented("this server builds no environments")

func (s *server) startBuild(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	var in startBuildRequestJSON
	if err := readBody(w, r, &in); err != nil {
		return err
	}
	e, err := s.environment(r.Context(), who, r.PathValue("id"), true)
	switch {
	case err != nil:
		return err
	case s.Builder == nil:
		return errNoBuilder
	case in.Repo == "" && len(e.Repos) == 0:
		return fault.Conflict("the environment is for no repository").Named("no_repository").Hint("give it one first")
	case in.Repo == "":
		in.Repo = e.Repos[0]
	case !slices.Contains(e.Repos, in.Repo):
		return fault.Invalid("must be one of the environment's repositories").At("repo")
	}
	out := s.newPush(w, jsonLines)
	defer out.close()
	say := func(line triedLine) error {
		data, err := marshal(line)
		if err != nil {
			return err
		}
		out.buf.Write(append(data, '\n'))
		return out.flush()
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	built, err := s.Builder.Demand(ctx, e, in.Repo, func(news string) {
		if say(triedLine{News: news}) != nil {
			cancel() // nobody listens; the build goes on
		}
	})
	if err != nil {
		f := fault.Of(err)
		if f.Kind == fault.KindInternal {
			s.Logger.Error("an environment cannot be built", "environment", e.ID, "error", err)
		}
		message := f.Message
		if f.Advice != "" {
			message += " (" + f.Advice + ")"
		}
		return say(triedLine{Error: &triedErr{Code: f.Code, Message: message}})
	}
	last := buildOf(built)
	return say(triedLine{Build: &last})
}

// build returns a build of a request's environment.
func (s *server) build(r *http.Request, who account.APIKey, change bool) (environment.Record, error) {
	e, err := s.environment(r.Context(), who, r.PathValue("id"), change)
	if err != nil {
		return environment.Record{}, err
	}
	b, err := s.Builds.Build(r.Context(), r.PathValue("buildId"))
	if errors.Is(err, store.ErrNotFound) || err == nil && b.EnvironmentID != e.ID {
		return b, fault.NotFound("no build %s of that environment", quoted(r.PathValue("buildId")))
	}
	if err != nil {
		return b, fmt.Errorf("read build: %w", err)
	}
	return b, nil
}

func (s *server) cancelBuild(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	b, err := s.build(r, who, true)
	switch {
	case err != nil:
		return err
	case s.Builder == nil:
		return errNoBuilder
	case b.Status != environment.InProgress:
		return fault.Conflict("the build has ended: it is %s", b.Status).Named("build_not_running")
	}
	if err := s.Builder.Cancel(b.EnvironmentID); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// logPoll is how often the log of a build under way is looked at.
const logPoll = 300 * time.Millisecond

func (s *server) buildLog(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	b, err := s.build(r, who, false)
	if err != nil {
		return err
	}
	if s.Builder == nil {
		return errNoBuilder
	}
	path, err := s.Builder.LogFile(b.ID)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.NotFound("no log of build %s is kept", b.ID).Named("no_log")
	}
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer func() { _ = f.Close() }()
	out := s.newPush(w, "text/plain; charset=utf-8")
	defer out.close()
	for {
		ended := b.Status != environment.InProgress // before the last look
		for {
			n, err := io.CopyN(&out.buf, f, 256<<10)
			if n > 0 || ended {
				if err := out.flush(); err != nil {
					return nil // the reader is gone
				}
			}
			if err != nil {
				break // its end, so far
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
			return nil // it was deleted meanwhile
		}
	}
}
