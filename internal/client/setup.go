package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Presets of an agent that sets up an environment: with PresetSetUp, a person
// sets up the machine; with PresetHelper, the agent does.
const (
	PresetSetUp  = "setup"
	PresetHelper = "vmSetupHelper"
)

// Env is the environment from which an agent's machine starts.
type Env struct {
	Type   string `json:"type"`           // "cloud"
	Name   string `json:"name,omitempty"` // name of a saved environment
	Preset string `json:"preset,omitempty"`
	Image  string `json:"image,omitempty"` // image for [PresetSetUp]
}

// Snapshot is a saved disk with a proposed environment.json.
type Snapshot struct {
	ID   string   `json:"id"`
	JSON string   `json:"environmentJson"`
	Why  []string `json:"why"`
}

// CreateSnapshot saves the disk of an agent's machine. It stops the machine.
func (c *Client) CreateSnapshot(ctx context.Context, agentID string) (Snapshot, error) {
	var out Snapshot
	return out, c.call(ctx, http.MethodPost, agentPath(agentID)+"/snapshots", nil, &out)
}

// Proposed is an environment that an agent has pushed.
type Proposed struct {
	Path     string   `json:"path"`
	Branch   string   `json:"branch"`
	JSON     string   `json:"environmentJson"`
	Findings []string `json:"findings"`
}

// ProposedEnvironment returns the environment that the agent proposes. If there is none,
// the error has the code no_proposal.
func (c *Client) ProposedEnvironment(ctx context.Context, agentID string) (Proposed, error) {
	var out Proposed
	return out, c.call(ctx, http.MethodGet, agentPath(agentID)+"/environment", nil, &out)
}

// Tried is the result of a test build.
type Tried struct {
	Build    TriedBuild `json:"build"`
	Findings []string   `json:"findings,omitempty"`
}

// TriedBuild is a test build.
type TriedBuild struct {
	ID      string `json:"id"`
	Status  string `json:"status"` // SUCCEEDED, FAILED, CANCELLED
	Message string `json:"message,omitempty"`
}

type environmentText struct {
	JSON string `json:"environmentJson"`
}

// TryEnvironment tests an environment by building it. The build continues if
// ctx is canceled; a repeated call waits for the same build. TryEnvironment
// calls tell with progress messages.
func (c *Client) TryEnvironment(ctx context.Context, agentID, text string, tell func(string)) (Tried, error) {
	var out Tried
	return out, c.lines(ctx, agentPath(agentID)+"/environment/try", environmentText{text}, &out, tell)
}

// lines posts the request in, and reads a reply of JSON lines. It calls tell
// with progress lines. It decodes the last line, which contains a build, into
// out.
func (c *Client) lines(ctx context.Context, path string, in, out any, tell func(string)) error {
	reply, err := c.open(ctx, request{method: http.MethodPost, path: path, in: in})
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	lines := bufio.NewScanner(reply.Body)
	lines.Buffer(nil, maxReply)
	for lines.Scan() {
		var line struct {
			News  string `json:"news"`
			Build *json.RawMessage
			Error *struct{ Code, Message string }
		}
		if len(lines.Bytes()) == 0 {
			continue
		}
		err := json.Unmarshal(lines.Bytes(), &line)
		switch {
		case err != nil:
		case line.Error != nil:
			return &Error{Code: line.Error.Code, Message: line.Error.Message}
		case line.Build == nil:
			tell(line.News)
			continue
		default:
			if err = json.Unmarshal(lines.Bytes(), out); err == nil {
				return nil
			}
		}
		return fmt.Errorf("unexpected reply: %w", err)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return &UnreachableError{URL: c.base.String(), Err: errors.Join(errors.New("the connection was lost"), lines.Err())}
}

// CommittedEnvironment is the path, branch and commit of a committed environment.
type CommittedEnvironment struct {
	Path   string `json:"path"`
	Branch string `json:"branch"`
	Commit string `json:"commit"`
}

// CommitEnvironment commits an environment on the agent's branch and pushes it.
func (c *Client) CommitEnvironment(ctx context.Context, agentID, text string) (CommittedEnvironment, error) {
	var out CommittedEnvironment
	return out, c.callWith(ctx, request{method: http.MethodPost, path: agentPath(agentID) + "/environment/commit", in: environmentText{text}}, &out)
}

// SaveEnvironment saves an environment of the caller for a repository. It
// replaces an environment that is saved for only this repository.
func (c *Client) SaveEnvironment(ctx context.Context, name, repo, text string) (id string, err error) {
	type repos []map[string]string
	var list struct {
		Items []struct {
			ID, Owner string
			Repos     []struct{ URL string }
		}
	}
	if err := c.call(ctx, http.MethodGet, "/v1/environments", page(100, ""), &list); err != nil {
		return "", err
	}
	for _, e := range list.Items {
		if e.Owner == "personal" && len(e.Repos) == 1 && e.Repos[0].URL == repo {
			return e.ID, c.patch(ctx, "/v1/environments/"+segment(e.ID), environmentText{text})
		}
	}
	var out struct{ ID string }
	err = c.callWith(ctx, request{method: http.MethodPost, path: "/v1/environments", in: map[string]any{
		"owner": "personal", "name": name, "repos": repos{{"url": repo}}, "environmentJson": text,
	}}, &out)
	return out.ID, err
}

// patch sends a PATCH request whose reply has no body.
func (c *Client) patch(ctx context.Context, path string, in any) error {
	reply, err := c.open(ctx, request{method: http.MethodPatch, path: path, in: in})
	if err != nil {
		return err
	}
	return reply.Body.Close()
}
