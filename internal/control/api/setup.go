package api

import (
	"context"
	"log/slog"
	"net/http"

	"aloft/internal/account"
	"aloft/internal/agent"
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

func (s *server) setUpRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/agents/{id}/snapshots", id: "createSnapshot", long: true,
			summary: "Stop an agent's machine, save its disk, and propose an environment that starts from it",
			status:  201, out: snapshotJSON{}, handle: s.createSnapshot},
		{method: "GET", path: "/v1/agents/{id}/environment", id: "getProposedEnvironment",
			summary: "Show the environment that an agent has pushed", status: 200, out: proposedJSON{}, handle: s.getProposed},
		{method: "POST", path: "/v1/agents/{id}/environment/try", id: "tryEnvironment", long: true,
			summary: "Test an environment with a build; the reply is JSON lines: progress, and the build at the end",
			in:      environmentTextJSON{}, status: 200, media: jsonLines, handle: s.tryEnvironment},
		{method: "POST", path: "/v1/agents/{id}/environment/commit", id: "commitEnvironment", long: true,
			summary: "Commit an environment to the agent's branch and push it", in: environmentTextJSON{}, status: 200, out: committedJSON{}, handle: s.commitEnvironment},
	}
}

// settingUp returns the agent in the request's path, if it is one for setting
// up a machine and the caller may use it.
func (s *server) settingUp(r *http.Request, who account.APIKey) (agent.Agent, error) {
	a, err := s.agent(r.Context(), who, r.PathValue("id"))
	switch {
	case err != nil:
		return a, err
	case a.Archived:
		return a, fault.Conflict("the agent is archived").Named("agent_archived").Hint("unarchive it first")
	case s.SetUps == nil:
		return a, fault.NotImplemented("saving machines as environments is not enabled on this server").Named(codeOff)
	case len(a.Repos) == 0:
		return a, fault.Conflict("the agent has no repository").Named(codeNoRepository)
	}
	return a, nil
}

func (s *server) createSnapshot(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.settingUp(r, who)
	if err != nil {
		return err
	}
	if err := s.mayAdd(r.Context(), a.UserID, Quotas{Snapshots: 1}); err != nil {
		return err
	}
	// Continue after the client has disconnected: a half-saved disk is of no
	// use.
	id, p, err := s.SetUps.Snapshot(context.WithoutCancel(r.Context()), a)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, snapshotJSON{ID: id, EnvironmentJSON: p.Text, Why: p.Why})
}

func (s *server) getProposed(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
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
	return writeJSON(w, http.StatusOK, out)
}

func environmentText(w http.ResponseWriter, r *http.Request) (string, error) {
	var in environmentTextJSON
	if err := readBody(w, r, &in); err != nil {
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

func (s *server) tryEnvironment(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
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
func (s *server) relay(w http.ResponseWriter, r *http.Request, log *slog.Logger, build func(ctx context.Context, tell func(string)) (triedLine, error)) error {
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
	end, err := build(ctx, func(news string) {
		if say(triedLine{News: news}) != nil {
			cancel() // the client has gone; the build continues
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

func (s *server) commitEnvironment(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
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
	return writeJSON(w, http.StatusOK, committedJSON{Path: path, Branch: branch, Commit: commit})
}

// maxImageName is the maximum length of an image's name, in bytes.
const maxImageName = 500

// env validates where the agent's machine comes from.
func (in *agentEnvJSON) env() (agent.Env, error) {
	e := agent.Env{Type: "cloud"}
	if in == nil {
		return e, nil
	}
	if in.Name != nil {
		if e.Name = *in.Name; e.Name == "" || len(e.Name) > 255 {
			return e, fault.Invalid("must have 1 to 255 bytes").At("env.name")
		}
	}
	switch e.Preset = agent.Preset(in.Preset); e.Preset {
	case "", agent.SetUp, agent.VMSetupHelper:
	default:
		return e, fault.Invalid("must be setup or vmSetupHelper, or absent").At("env.preset")
	}
	if e.Image = in.Image; e.Image != "" && (e.Preset != agent.SetUp || len(e.Image) > maxImageName) {
		return e, fault.Invalid("an image requires env.preset setup, and must be at most %d bytes", maxImageName).At("env.image").
			Hint("otherwise set the image in environment.json")
	}
	return e, nil
}
