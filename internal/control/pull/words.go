package pull

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"aloft/internal/control/gateway"
	"aloft/internal/text"
)

// Limits of a pull request's text, below those of forges.
const (
	maxTitle    = 120    // runes
	maxBody     = 60_000 // bytes; GitHub allows 65,536 characters
	maxTemplate = 16_000 // bytes
	maxCommits  = 50     // commits listed
	maxOwnText  = 20_000 // bytes of the agent's own text
)

// generalTitle is the title of a pull request that must not describe the work.
const generalTitle = "Changes by an agent"

// Templates are the paths of a project's pull request template, in order of
// precedence.
var Templates = []string{
	".github/pull_request_template.md", ".github/PULL_REQUEST_TEMPLATE.md", "pull_request_template.md", "PULL_REQUEST_TEMPLATE.md",
	"docs/pull_request_template.md", "docs/PULL_REQUEST_TEMPLATE.md", ".gitlab/merge_request_templates/Default.md", ".gitea/pull_request_template.md",
}

// Words are a pull request's title and body.
type Words struct{ Title, Body string }

// Source is the input for composing [Words].
type Source struct {
	Task      string           // the first prompt
	Name      string           // name of the agent
	LastWords string           // the agent's last message; "" if it must not be shown
	Commits   []gateway.Commit // commits on the branch, oldest first
	Template  string           // the project's template, or ""
	Unhooked  []string         // why commits and pushes skipped the project's git hooks
	Checks    string           // the results of the checks, from checksText
	Link      string           // address of the agent
}

// Compose returns a pull request's text. The title is the subject of the commit
// if there is only one, or else derived from the task. The body is the agent's
// last message, inserted into the project's template.
func Compose(s Source) Words {
	var b strings.Builder
	summary := cut(strings.TrimSpace(s.LastWords), maxOwnText)
	switch {
	case summary != "":
		b.WriteString(summary)
	case len(s.Commits) == 1:
		b.WriteString(strings.TrimSpace(s.Commits[0].Body))
	}
	if len(s.Commits) > 1 {
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString("Commits:\n")
		for i, c := range s.Commits {
			if i == maxCommits {
				fmt.Fprintf(&b, "\n- and %d more", len(s.Commits)-i)
				break
			}
			b.WriteString("\n- " + oneLine(c.Subject))
		}
	}
	body := fill(s.Template, strings.TrimSpace(b.String())) + passedOver(s.Unhooked) + s.Checks
	return Words{Title: title(s), Body: Sign(body, s.Name, s.Link)}
}

// maxUnhooked is how many notes about skipped git hooks are listed.
const maxUnhooked = 10

// passedOver tells reviewers that the project's git hooks were skipped.
func passedOver(why []string) string {
	if len(why) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\nThe project's git hooks were skipped:\n")
	for _, w := range why[:min(len(why), maxUnhooked)] {
		b.WriteString("\n- " + escaped.Replace(oneLine(w)))
	}
	return b.String()
}

func title(s Source) string {
	candidates := []string{s.Task, s.Name}
	if len(s.Commits) == 1 {
		candidates = append([]string{s.Commits[0].Subject}, candidates...)
	}
	for _, text := range candidates {
		first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
		if line := oneLine(first); line != "" {
			return line
		}
	}
	return generalTitle
}

// Sign appends a link to the agent.
func Sign(body, name, link string) string {
	body = cut(strings.TrimSpace(body), maxBody)
	if link == "" {
		return body
	}
	signature := fmt.Sprintf("Made by the agent [%s](%s).", escaped.Replace(oneLine(name)), link)
	if strings.Contains(body, "]("+link+")") {
		return body
	}
	if body != "" {
		body += "\n\n---\n"
	}
	return body + signature
}

// escaped escapes Markdown in a name, so that it cannot end the link around it.
var escaped = strings.NewReplacer(`[`, `\[`, `]`, `\]`, "`", "\\`", `<`, `\<`, `*`, `\*`, `_`, `\_`, `\`, `\\`)

var (
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
	// intended matches a template's heading that asks for a description of the
	// change.
	intended = regexp.MustCompile(`(?im)^#{1,6}[ \t]+[^\n]*\b(summary|description|describe|overview|what|changes?|proposed)\b[^\n]*$`)
)

// fill inserts the text into a template: below the first heading that asks for
// a description, or else at the beginning.
func fill(template, words string) string {
	template = strings.TrimSpace(comment.ReplaceAllString(cut(strings.ReplaceAll(template, "\r\n", "\n"), maxTemplate), ""))
	switch {
	case template == "":
		return words
	case words == "":
		return template
	}
	at := intended.FindStringIndex(template)
	if at == nil {
		return words + "\n\n" + template
	}
	return strings.TrimSpace(template[:at[1]] + "\n\n" + words + "\n\n" + strings.TrimLeft(template[at[1]:], "\n"))
}

// oneLine reduces a text to one line of at most maxTitle runes.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if r := []rune(text); len(r) > maxTitle {
		text = strings.TrimSpace(string(r[:maxTitle-1])) + "…"
	}
	return text
}

// cut returns the beginning of s, at most limit bytes.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return text.Head(s, limit-len("…")) + "…"
}
