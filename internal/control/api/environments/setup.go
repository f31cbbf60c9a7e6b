package environments

import (
	"context"
	"log/slog"
	"net/http"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// SetUps turns a machine that a person has set up into an environment. Its
// methods are safe for concurrent use.
type SetUps interface {
	// Snapshot saves the disk of the agent's machine, and proposes an
	// environment that starts from it.
	Snapshot(ctx context.Context, a agent.Agent) (id string, p environment.Proposal, err error)
	// Try builds an environment to find out whether it works. The result is not
	// saved.
	Try(ctx context.Context, a agent.Agent, text string, tell func(string)) (environment.Record, environment.Findings, error)
	// Proposed returns the environment that the agent has written and pushed.
	// If there is none, path is "".
	Proposed(ctx context.Context, a agent.Agent) (path, branch, text string, err error)
	// Commit commits an environment to the agent's branch and pushes it.
	Commit(ctx context.Context, a agent.Agent, text string) (path, branch, commit string, err error)
}

type snapshotJSON struct {
	_               struct{} `json:"-" additionalProperties:"true"`
	ID              string   `json:"id"`
	EnvironmentJSON string   `json:"environmentJson" doc:"proposed environment.json, which starts from the snapshot"`
	Why             []string `json:"why" nullable:"false" doc:"origin of each part of the proposal"`
}

type environmentTextJSON struct {
	_               struct{} `json:"-" additionalProperties:"true"`
	EnvironmentJSON string   `json:"environmentJson"`
}

type proposedJSON struct {
	_               struct{} `json:"-" additionalProperties:"true"`
	Path            string   `json:"path"`
	Branch          string   `json:"branch"`
	EnvironmentJSON string   `json:"environmentJson"`
	Findings        []string `json:"findings" nullable:"false" doc:"problems of the proposal"`
}

type committedJSON struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	Path   string   `json:"path"`
	Branch string   `json:"branch"`
	Commit string   `json:"commit"`
}

// triedLine is one line of the reply to a try: progress, or the result.
type triedLine struct {
	News     string     `json:"news,omitempty"`
	Build    *buildJSON `json:"build,omitempty"`
	Findings []string   `json:"findings,omitempty"`
	Error    *triedErr  `json:"error,omitempty"`
}

type triedErr struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (s *API) setUpRoutes() []rest.Route {
	return []rest.Route{
		{Method: "POST", Path: "/v1/agents/{id}/snapshots", ID: "createSnapshot", Long: true,
			Summary: "Stop an agent's machine, save its disk, and propose an environment that starts from it",
			Status:  201, Out: snapshotJSON{}, Handle: s.createSnapshot},
		{Method: "GET", Path: "/v1/agents/{id}/environment", ID: "getProposedEnvironment",
			Summary: "Show the environment that an agent has pushed", Status: 200, Out: proposedJSON{}, Handle: s.getProposed},
		{Method: "POST", Path: "/v1/agents/{id}/environment/try", ID: "tryEnvironment", Long: true,
			Summary: "Test an environment with a build; the reply is JSON lines: progress, and the build at the end",
			In:      environmentTextJSON{}, Status: 200, Media: rest.JSONLines, Handle: s.tryEnvironment},
		{Method: "POST", Path: "/v1/agents/{id}/environment/commit", ID: "commitEnvironment", Long: true,
			Summary: "Commit an environment to the agent's branch and push it", In: environmentTextJSON{}, Status: 200, Out: committedJSON{}, Handle: s.commitEnvironment},
	}
}

// settingUp returns the agent in the request's path, if its purpose is to set
// up a machine and the caller may use it.
func (s *API) settingUp(r *http.Request, who account.APIKey) (agent.Agent, error) {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	switch {
	case err != nil:
		return a, err
	case a.Archived:
		return a, fault.Conflict("the agent is archived").Named("agent_archived").Hint("unarchive it first")
	case s.SetUps == nil:
		return a, fault.NotImplemented("saving machines as environments is not enabled on this server").Named(rest.CodeOff)
	case len(a.Repos) == 0:
		return a, fault.Conflict("the agent has no repository").Named(agents.CodeNoRepository)
	}
	return a, nil
}

func (s *API) createSnapshot(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.settingUp(r, who)
	if err != nil {
		return err
	}
	if err := s.MayAdd(r.Context(), a.UserID, agents.Quotas{Snapshots: 1}); err != nil {
		return err
	}
	// Continue after the client has disconnected, because a partly saved disk
	// is useless.
	id, p, err := s.SetUps.Snapshot(context.WithoutCancel(r.Context()), a)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, snapshotJSON{ID: id, EnvironmentJSON: p.Text, Why: p.Why})
}

func (s *API) getProposed(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.settingUp(r, who)
	if err != nil {
		return err
	}
	path, branch, text, err := s.SetUps.Proposed(r.Context(), a)
	if err != nil {
		return err
	}
	if path == "" {
		return fault.NotFound("the agent has not pushed an environment").Named("no_proposal").Hint("tell it what to do in a follow-up")
	}
	out := proposedJSON{Path: path, Branch: branch, EnvironmentJSON: text, Findings: []string{}}
	_, findings := environment.Parse(path, []byte(text))
	for _, f := range findings {
		out.Findings = append(out.Findings, f.String())
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func environmentText(w http.ResponseWriter, r *http.Request) (string, error) {
	var in environmentTextJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return "", err
	}
	_, findings := environment.Parse("environmentJson", []byte(in.EnvironmentJSON))
	for _, f := range findings {
		if f.Severity == environment.Error {
			return "", fault.Invalid("%s", f).Hint("check the file with `aloft env check`").At("environmentJson")
		}
	}
	return in.EnvironmentJSON, nil
}

func (s *API) tryEnvironment(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.settingUp(r, who)
	if err != nil {
		return err
	}
	text, err := environmentText(w, r)
	if err != nil {
		return err
	}
	return s.relay(w, r, s.Logger.With("agent", a.ID), func(ctx context.Context, tell func(string)) (triedLine, error) {
		built, findings, err := s.SetUps.Try(ctx, a, text, tell)
		last := buildOf(built)
		end := triedLine{Build: &last}
		for _, f := range findings {
			end.Findings = append(end.Findings, f.String())
		}
		return end, err
	})
}

// relay streams the progress of a build, and its result at the end.
func (s *API) relay(w http.ResponseWriter, r *http.Request, log *slog.Logger, build func(ctx context.Context, tell func(string)) (triedLine, error)) error {
	out := s.NewPush(w, rest.JSONLines)
	defer out.Close()
	say := func(line triedLine) error {
		data, err := rest.Marshal(line)
		if err != nil {
			return err
		}
		out.Buf.Write(append(data, '\n'))
		return out.Flush()
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	end, err := build(ctx, func(news string) {
		if say(triedLine{News: news}) != nil {
			cancel() // the client has disconnected; the build continues
		}
	})
	if err == nil {
		return say(end)
	}
	f := fault.Of(err)
	if f.Kind == fault.KindInternal {
		log.Error("cannot build an environment", "error", err)
	}
	message := f.Message
	if f.Advice != "" {
		message += " (" + f.Advice + ")"
	}
	return say(triedLine{Error: &triedErr{Code: f.Code, Message: message}})
}

func (s *API) commitEnvironment(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.settingUp(r, who)
	if err != nil {
		return err
	}
	text, err := environmentText(w, r)
	if err != nil {
		return err
	}
	path, branch, commit, err := s.SetUps.Commit(r.Context(), a, text)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, committedJSON{Path: path, Branch: branch, Commit: commit})
}
