package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Environment is a saved environment. JSON is empty in a list.
type Environment struct {
	ID        string    `json:"id"`
	Owner     string    `json:"owner"` // personal or team
	Name      string    `json:"name"`
	Repos     []RepoOf  `json:"repos"`
	JSON      string    `json:"environmentJson,omitempty"`
	VersionID string    `json:"versionId,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
}

// Build is a build of an environment.
type Build struct {
	ID            string     `json:"id"`
	EnvironmentID string     `json:"environmentId"`
	Status        string     `json:"status"` // IN_PROGRESS, SUCCEEDED, FAILED, CANCELLED, SKIPPED
	Trigger       string     `json:"trigger"`
	FailureType   string     `json:"failureType,omitempty"`
	Message       string     `json:"message,omitempty"`
	ExitCode      *int       `json:"exitCode,omitempty"`
	CreatedAt     time.Time  `json:"createdAt"`
	EndedAt       *time.Time `json:"endedAt,omitempty"`
}

// Version is a version of an environment.
type Version struct {
	ID        string    `json:"versionId"`
	JSON      string    `json:"environmentJson"`
	UserID    int64     `json:"userId"`
	CreatedAt time.Time `json:"createdAt"`
}

// VersionDiff is the difference between two versions of an environment.
type VersionDiff struct {
	From string `json:"from"`
	To   string `json:"to"`
	Diff string `json:"diff"`
}

// NewEnvironment is a request to save an environment. In an update, absent fields are
// left unchanged.
type NewEnvironment struct {
	Owner string    `json:"owner,omitempty"` // personal or team
	Name  *string   `json:"name,omitempty"`
	Repos *[]RepoOf `json:"repos,omitempty"`
	JSON  *string   `json:"environmentJson,omitempty"`
}

// RepoOf is a repository of an environment.
type RepoOf struct {
	URL string `json:"url"`
}

func environmentPath(id string) string { return "/v1/environments/" + url.PathEscape(id) }

var atOnce = url.Values{"limit": {"100"}}

// Environments returns the newest 100 of the caller's and the team's environments.
func (c *Client) Environments(ctx context.Context) ([]Environment, error) {
	var out struct {
		Items []Environment `json:"items"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/environments", atOnce, &out)
	return out.Items, err
}

// Environment returns a saved environment.
func (c *Client) Environment(ctx context.Context, id string) (Environment, error) {
	var out Environment
	return out, c.call(ctx, http.MethodGet, environmentPath(id), nil, &out)
}

// DeleteEnvironment removes a saved environment with its history.
func (c *Client) DeleteEnvironment(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, environmentPath(id), nil, nil)
}

// CreateEnvironment saves an environment.
func (c *Client) CreateEnvironment(ctx context.Context, e NewEnvironment) (Environment, error) {
	var out Environment
	return out, c.callWith(ctx, request{method: http.MethodPost, path: "/v1/environments", in: e}, &out)
}

// UpdateEnvironment changes a saved environment.
func (c *Client) UpdateEnvironment(ctx context.Context, id string, e NewEnvironment) error {
	return c.patch(ctx, environmentPath(id), e)
}

// EnvironmentHistory returns the newest 100 versions of an environment, newest first.
func (c *Client) EnvironmentHistory(ctx context.Context, id string) ([]Version, error) {
	var out struct {
		Items []Version `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, environmentPath(id)+"/history", atOnce, &out)
}

// EnvironmentDiff returns the difference between two versions of an environment
// in the format of diff -u. An empty to means the current version; an empty
// from means the version before to.
func (c *Client) EnvironmentDiff(ctx context.Context, id, from, to string) (VersionDiff, error) {
	var out VersionDiff
	asked := url.Values{}
	for name, version := range map[string]string{"from": from, "to": to} {
		if version != "" {
			asked.Set(name, version)
		}
	}
	return out, c.call(ctx, http.MethodGet, environmentPath(id)+"/history/diff", asked, &out)
}

// IsEnvironment reports whether name is the ID of a saved environment rather than the URL
// of a repository.
func IsEnvironment(name string) bool {
	return strings.HasPrefix(name, "env-") && !strings.ContainsAny(name, "/:")
}

// Builds returns the newest 100 builds of a saved environment, or of a repository given
// by its URL.
func (c *Client) Builds(ctx context.Context, of string) ([]Build, error) {
	var out struct {
		Items []Build `json:"items"`
	}
	path, query := "/v1/builds", url.Values{"limit": {"100"}, "repo": {of}}
	if IsEnvironment(of) {
		path, query = environmentPath(of)+"/builds", atOnce
	}
	err := c.call(ctx, http.MethodGet, path, query, &out)
	return out.Items, err
}

func buildPath(id string) string { return "/v1/builds/" + url.PathEscape(id) }

// CancelBuild cancels a running build.
func (c *Client) CancelBuild(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, buildPath(id)+"/cancel", nil, nil)
}

// StartBuild builds a saved environment, or the environment of a repository
// given by its URL. It waits until the build ends, and returns it. The build
// continues if ctx is canceled. repo is one of the environment's repositories;
// "" means the first. StartBuild calls tell with progress messages.
func (c *Client) StartBuild(ctx context.Context, of, repo string, again bool, tell func(string)) (Build, error) {
	in := map[string]any{"again": again}
	path := "/v1/builds"
	if IsEnvironment(of) {
		path = environmentPath(of) + "/builds"
		if repo != "" {
			in["repo"] = repo
		}
	} else {
		in["repo"] = of
	}
	var out struct {
		Build Build `json:"build"`
	}
	return out.Build, c.lines(ctx, path, in, &out, tell)
}

// BuildLog copies a build's log to w. With follow it continues until the build ends.
func (c *Client) BuildLog(ctx context.Context, id string, follow bool, to io.Writer) error {
	reply, err := c.open(ctx, request{method: http.MethodGet, path: buildPath(id) + "/log", query: url.Values{"follow": {strconv.FormatBool(follow)}}})
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	_, err = io.Copy(to, reply.Body)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return &UnreachableError{URL: c.base.String(), Err: errors.Join(errors.New("the connection was lost"), err)}
	}
	return nil
}
