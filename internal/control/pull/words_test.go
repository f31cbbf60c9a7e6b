package pull_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"aloft/internal/control/gateway"
	"aloft/internal/control/pull"
)

func TestCompose(t *testing.T) {
	const link = "https://aloft.test/agents/bc-1"
	signed := func(body string) string { return body + "\n\n---\nMade by the agent [Mend](" + link + ")." }
	one := []gateway.Commit{{Subject: "api: mend", Body: "Why."}}
	two := append(one, gateway.Commit{Subject: "docs: tell"})
	for name, c := range map[string]struct {
		in          pull.Source
		title, body string
	}{
		"OneCommit":   {pull.Source{Task: "Mend it", Commits: one}, "api: mend", signed("Why.")},
		"LastWords":   {pull.Source{Task: "Mend it", LastWords: "Mended.", Commits: one}, "api: mend", signed("Mended.")},
		"Commits":     {pull.Source{Task: "Mend it\nall", LastWords: "Mended.", Commits: two}, "Mend it", signed("Mended.\n\nCommits:\n\n- api: mend\n- docs: tell")},
		"NothingSaid": {pull.Source{}, "Mend", "Made by the agent [Mend](" + link + ")."},
		"Template": {
			pull.Source{Task: "Mend it", LastWords: "Mended.", Template: "<!-- hints -->\r\n## Summary\r\n\r\n<!-- tell -->\r\n\r\n## Checklist\r\n- [ ] tests\r\n"},
			"Mend it", signed("## Summary\n\nMended.\n\n## Checklist\n- [ ] tests"),
		},
		"TemplateWithoutPlace": {pull.Source{Task: "Mend it", LastWords: "Mended.", Template: "- [ ] tests"}, "Mend it", signed("Mended.\n\n- [ ] tests")},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Name, c.in.Link = "Mend", link
			if w := pull.Compose(c.in); w.Title != c.title || w.Body != c.body {
				t.Errorf("got %q, %q\nwant %q, %q", w.Title, w.Body, c.title, c.body)
			}
		})
	}
}

// FuzzCompose checks that the title is one line and the text is limited,
// whatever agents and projects provide.
func FuzzCompose(f *testing.F) {
	f.Add("task\nmore", "said", "## Summary\n<!-- x -->", "name ](http://evil) `x`", "subject", "body")
	f.Add("\xff\x00", strings.Repeat("é", 40_000), "<!--", "[", "", "")
	f.Fuzz(func(t *testing.T, task, said, template, name, subject, body string) {
		for _, commits := range [][]gateway.Commit{nil, {{Subject: subject, Body: body}}, {{Subject: subject}, {Subject: subject}}} {
			w := pull.Compose(pull.Source{Task: task, LastWords: said, Template: template, Name: name, Commits: commits, Link: "https://aloft.test/a"})
			if strings.ContainsAny(w.Title, "\n\r\x00") || strings.TrimSpace(w.Title) == "" || utf8.RuneCountInString(w.Title) > 120 {
				t.Errorf("the title is %q", w.Title)
			}
			if len(w.Body) > 65_000 || !utf8.ValidString(w.Body) || !strings.Contains(w.Body, "](https://aloft.test/a)") {
				t.Errorf("a body of %d bytes: %.80q", len(w.Body), w.Body)
			}
		}
	})
}

// TestComposeTellsOfHooks checks that even a person's own text gets a note
// about skipped hooks, and that its input cannot extend the note.
func TestComposeTellsOfHooks(t *testing.T) {
	got := pull.Compose(pull.Source{LastWords: "Done.", Unhooked: []string{"the commit hooks did not let it pass", "a\n# heading"}, Link: "https://aloft.test/a", Name: "Mend"})
	if !strings.HasPrefix(got.Body, "Done.\n\nThe project's git hooks were skipped:\n\n- the commit hooks did not let it pass\n- a # heading\n\n---\nMade by") {
		t.Errorf("the body is %q", got.Body)
	}
	if plain := pull.Compose(pull.Source{LastWords: "Done."}); strings.Contains(plain.Body, "hooks") {
		t.Errorf("the body is %q", plain.Body)
	}
}
