package forgetest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"aloft/internal/control/forge"
)

// quickAction matches either code, as GitLab recognizes it, or a line that GitLab
// executes as a command.
var quickAction = regexp.MustCompile("(?ims)^```.+?\n```$|^/([a-z0-9_]+)(?: [^\n]*)?(?:\\s*\n|\\z)")

// botCommand matches a mention that programs at GitHub and Gitea obey, also in code.
var botCommand = regexp.MustCompile(`(?i)@(dependabot|mergifyio)\b`)

// botCommands returns the commands that programs at a host find in a text: lines like
// GitLab's quick actions, and mentions.
func botCommands(text string) []string {
	return append(quickActions(text), botCommand.FindAllString(text, -1)...)
}

// quickActions returns the names of the quick actions that GitLab finds in a text.
func quickActions(text string) (names []string) {
	for _, m := range quickAction.FindAllStringSubmatch(strings.ReplaceAll(text, "\r", ""), -1) {
		if m[1] != "" {
			names = append(names, m[1])
		}
	}
	return names
}

// act records the commands that the host executes because the body contains them.
func (s *Server) act(body []byte) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range bodies(v) {
		s.actions = append(s.actions, s.dialect.actions(text)...)
	}
}

// bodies returns the bodies and descriptions at any depth of a request.
func bodies(v any) (all []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			all = append(all, bodies(e)...)
		}
	case map[string]any:
		for key, e := range v {
			if text, ok := e.(string); ok && (key == "body" || key == "description") {
				all = append(all, text)
			}
			all = append(all, bodies(e)...)
		}
	}
	return all
}

// RunActions checks that no text from an agent makes the host execute a command
// with the rights of the server's token, and that the host shows the text as the
// agent wrote it.
func RunActions(t *testing.T, server func(testing.TB) *Server, with func(testing.TB, *Server, string) forge.Forge) {
	for name, text := range map[string]string{
		"first line": "/merge", "last line": "Done.\n\n/approve", "with an argument": "Done.\n/target_branch main\nMore.", "capital letters": "x\n/Merge\n",
		"after spaces": "x\n  /close", "joined by GitLab": "x\n/mer\rge\n", "after a return": "x\n\r/merge", "in code": "```\n/merge\n```", "in longer code": "````\na\n```\n/merge\n````",
		"a bot": "@dependabot merge", "a bot in code": "```\n@Mergifyio queue\n```",
		"in HTML": "<details>\n/merge\n</details>", "several": "/approve\n/merge\n/close",
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t)
			h := s.Host(t, func(t testing.TB, s *Server, token string) forge.Forge { return with(t, s, token) })
			if len(botCommands(text)) == 0 && !strings.Contains(name, "code") && !strings.Contains(name, "spaces") {
				t.Fatalf("no host would execute %q", text)
			}
			commit := h.Push(t, "b")
			p, err := h.Forge.Open(t.Context(), forge.NewPullRequest{Repo: h.Repo, Head: "b", Base: "main", Title: "/merge", Body: text})
			if err != nil {
				t.Fatal(err)
			}
			want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
			if got := strings.TrimRight(p.Body, "\n"); got != strings.TrimRight(want, "\n") {
				t.Errorf("the description is %q; want %q", got, want)
			}
			if _, err := h.Forge.Update(t.Context(), h.Repo, p.Number, forge.Change{Body: new(text + "\nx")}); err != nil {
				t.Error(err)
			}
			c, err := h.Forge.(forge.Discussion).Comment(t.Context(), h.Repo, p.Number, text)
			if err != nil || strings.TrimRight(c.Body, "\n") != strings.TrimRight(want, "\n") {
				t.Errorf("the comment is %q, %v; want %q", c.Body, err, want)
			}
			issues := h.Forge.(forge.Issues)
			at := forge.Topic{Number: h.OpenIssue(t, "x", "y"), Issue: true}
			if c, err = issues.CommentIssue(t.Context(), h.Repo, at.Number, text); err == nil {
				err = issues.EditComment(t.Context(), h.Repo, at, c.ID, text+"\nx")
			}
			if err != nil {
				t.Error(err)
			}
			n := newReview(commit, 2)
			n.Body, n.Comments[0].Body, n.Comments[1].Suggestion = text, text, text
			if _, err := h.Forge.(forge.Posting).PostReview(t.Context(), h.Repo, p.Number, n); err != nil {
				t.Error(err)
			}
			threads := checkPosted(t, h, p.Number, n)
			if len(threads) == 0 {
				t.Fatal("there are no threads")
			}
			if _, err := h.Forge.(forge.Reviewed).Reply(t.Context(), h.Repo, p.Number, threads[0].ID, text); err != nil && !s.dialect.noReply {
				t.Error(err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.actions) > 0 {
				t.Errorf("the host executes %v", slices.Compact(s.actions))
			}
		})
	}
}
