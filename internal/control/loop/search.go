package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"aloft/internal/agent"
	"aloft/internal/control/websearch"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// Web searches the web. [websearch.Engine] implements it. Its methods are safe
// for concurrent use.
type Web interface {
	// Search returns the pages found, best first. The error is for the model.
	Search(ctx context.Context, query string) ([]websearch.Result, error)
}

const searchWeb = "WebSearch"

// searchWeb runs a WebSearch call. A query that contains a secret of the agent
// or of the server is not sent.
func (t *thread) searchWeb(ctx context.Context, c conversation.ToolCall) (tool.Result, error) {
	var in struct {
		Term        string `json:"search_term"`
		Explanation string `json:"explanation"`
	}
	d := json.NewDecoder(bytes.NewReader(c.Args))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return tool.Failed("the arguments do not match the schema: %v", err), nil
	}
	in.Term = strings.TrimSpace(in.Term)
	switch {
	case in.Term == "":
		return tool.Failed("search_term is empty: give the words to search for"), nil
	case utf8.RuneCountInString(in.Term) > websearch.MaxQuery:
		return tool.Failed("search_term has more than %d characters: search for fewer words", websearch.MaxQuery), nil
	case t.holdsSecret(t.rec.Snapshot(), in.Term):
		return tool.Failed("search_term contains a secret, so it was not sent: search without it"), nil
	}
	found, err := t.Tools.Web.Search(ctx, in.Term)
	if cause := context.Cause(ctx); cause != nil {
		return tool.Result{}, cause
	}
	if err != nil {
		return tool.Failed("The search failed: %v", err), nil
	}
	text, output, err := websearch.Show(found)
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Text: text, Output: output}, nil
}

// holdsSecret reports whether a text contains a secret of the agent or of the
// server.
func (l *Loop) holdsSecret(s *agent.State, text string) bool {
	return l.Secrets != nil && l.Secrets(s).Contains([]byte(text))
}
