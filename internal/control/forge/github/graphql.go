package github

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// graphQL returns the address of the GraphQL API, given that of the REST API.
func graphQL(api string) string {
	api = strings.TrimRight(api, "/")
	if host, ok := strings.CutSuffix(api, "/api/v3"); ok {
		return host + "/api/graphql"
	}
	return api + "/graphql"
}

// query sends a GraphQL query, and decodes its data into out. GitHub reports
// failures with the status 200.
func (f *Forge) query(ctx context.Context, r forge.Repo, query string, variables map[string]any, out any) error {
	var answer struct {
		Data   json.RawMessage
		Errors []struct{ Type, Message string }
	}
	failed := func() error {
		if len(answer.Errors) == 0 {
			return nil
		}
		status := http.StatusUnprocessableEntity
		switch answer.Errors[0].Type {
		case "NOT_FOUND":
			status = http.StatusNotFound
		case "FORBIDDEN", "INSUFFICIENT_SCOPES":
			status = http.StatusForbidden
		case "RATE_LIMITED":
			status = http.StatusTooManyRequests
		}
		return forge.Refusal(r, status, http.Header{}, answer.Errors[0].Message, time.Now())
	}
	err := f.graph.Do(ctx, forge.Ask{Repo: r, Method: http.MethodPost, In: map[string]any{"query": query, "variables": variables}, Out: &answer, Failed: failed})
	if err != nil {
		return err
	}
	if json.Unmarshal(answer.Data, out) != nil {
		return fault.Unavailable("the response of %s is not that of the expected API", r.Host).Named(forge.CodeUnreachable).
			Hint("check the host's address, and `forge` in its entry of git.credentials")
	}
	return nil
}
