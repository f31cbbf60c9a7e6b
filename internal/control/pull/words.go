package pull

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"aloft/internal/control/gateway"
)

// What a pull request may say. Forges take more; nobody reads more.
const (
	maxTitle    = 120    // runes
	maxBody     = 60_000 // bytes: GitHub takes 65,536 characters
	maxTemplate = 16_000 // bytes
	maxCommits  = 50     // that are listed
	maxSaid     = 20_000 // bytes of the agent's own words
)

// generalTitle is the title of a pull request that is to say nothing of the work.
const generalTitle = "Changes by an agent"

// Templates are where a project keeps its template, in the order in which they
// count.
var Templates = []string{
	".github/pull_request_template.md", ".github/PULL_REQUEST_TEMPLATE.md", "pull_request_template.md", "PULL_REQUEST_TEMPLATE.md",
	"docs/pull_request_template.md", "docs/PULL_REQUEST_TEMPLATE.md", ".gitlab/merge_request_templates/Default.md", ".gitea/pull_request_template.md",
}

// Words are what a pull request says.
type Words struct{ Title, Body string }

// Source is what those words are made of.
type Source struct {
	Task     string           // what was asked for first
	Name     string           // of the agent
	Said     string           // the agent's last words; "" where they stay on the server
	Commits  []gateway.Commit // on the branch, the oldest first
	Template string           // of the project; "" for none
	Unhooked []string         // why commits and pushes were made without the project's git hooks
	Link     string           // to the agent
}

// Compose makes the words of a pull request: the title is that of the one commit,
// or else what was asked for; the body is what the agent said at the end, put
// into the project's template.
func Compose(s Source) Words {
	var b strings.Builder
	said := cut(strings.TrimSpace(s.Said), maxSaid)
	switch {
	case said != "":
		b.WriteString(said)
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
	body := fill(s.Template, strings.TrimSpace(b.String())) + passedOver(s.Unhooked)
	return Words{Title: title(s), Body: Sign(body, s.Name, s.Link)}
}

// maxUnhooked bounds how many notes on the project's git hooks are told.
const maxUnhooked = 10

// passedOver tells reviewers that the project's git hooks were.
func passedOver(why []string) string {
	if len(why) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\nThe project's git hooks were passed over:\n")
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

// Sign ends a body with where its agent is found.
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

// escaped keeps a name from ending the link that it stands in.
var escaped = strings.NewReplacer(`[`, `\[`, `]`, `\]`, "`", "\\`", `<`, `\<`, `*`, `\*`, `_`, `\_`, `\`, `\\`)

var (
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
	// intended is a heading below which a template wants to be told what was done.
	intended = regexp.MustCompile(`(?im)^#{1,6}[ \t]+[^\n]*\b(summary|description|describe|overview|what|changes?|proposed)\b[^\n]*$`)
)

// fill puts the words into a template: below the first heading that asks for
// them, or before all of it.
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

// oneLine is the text on one line, as long as a title may be.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if r := []rune(text); len(r) > maxTitle {
		text = strings.TrimSpace(string(r[:maxTitle-1])) + "…"
	}
	return text
}

// cut is the beginning of a text, at most so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[:most-len("…")]
	for !utf8.ValidString(text) && text != "" && !utf8.RuneStart(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return strings.ToValidUTF8(text, "") + "…"
}
