package forge

import (
	"regexp"
	"strings"
)

// A forge, and the programs that people install at one, obey lines of comments and
// descriptions, with the rights of their author: /merge at GitLab, /ok-to-test of CI
// systems, "@dependabot merge". Mentions notify people and whole teams. A model that
// a repository or a pull request has manipulated could write such texts.

// mentionBreak is an HTML comment, which hosts do not display. It separates @ from the
// name, so that the two are no mention.
const mentionBreak = "<!-- -->"

var (
	// command matches a command at the beginning of a line, but not a path such as
	// /usr/bin.
	command        = regexp.MustCompile(`(?im)^(\s*)/([a-z][a-z0-9_-]*(?:[^/a-z0-9_-]|$))`)
	escapedCommand = regexp.MustCompile(`(?im)^(\s*)\\/([a-z][a-z0-9_-]*(?:[^/a-z0-9_-]|$))`)
	mention        = regexp.MustCompile(`(^|[^A-Za-z0-9_/])@([A-Za-z0-9])`)
	// bot matches mentions of programs that obey comments. Some read code too. A name
	// before a slash is that of a package.
	bot = regexp.MustCompile(`(?im)@((?:dependabot|renovate|renovatebot|mergify|mergifyio|bors|homu|rustbot|k8s-ci-robot|pullapprove|netlify|all-contributors|allcontributors|copilot|claude|codex|cursor|cursoragent|coderabbitai|gemini-code-assist|jules|devin-ai-integration)(?:[^\w/-]|$))`)
	// returns normalizes line ends: GitLab deletes \r, which could join two parts of a command.
	returns = strings.NewReplacer("\r\n", "\n", "\r", "\n")
	// codeSpan matches code within a line.
	codeSpan = regexp.MustCompile("`[^`]+`")
	fenced   = regexp.MustCompile("^ {0,3}(```+|~~~+)([^`]*)$")
)

// Inert returns the text to send for a comment or a description, at most the given
// number of bytes. It contains no command, also in code, whose end hosts find differently
// from Markdown, and no mention outside of code. [AsWritten] reverses it.
func Inert(text string, most int) string {
	text = command.ReplaceAllString(returns.Replace(Cut(text, most)), `$1\/$2`)
	var b strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		m := fenced.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		switch {
		case fence != "":
			if m != nil && strings.HasPrefix(m[1], fence) && strings.TrimSpace(m[2]) == "" {
				fence = ""
			}
		case m != nil:
			fence = m[1]
		default:
			line = withoutMentions(line)
		}
		b.WriteString(bot.ReplaceAllString(line, "@"+mentionBreak+"$1"))
	}
	return Cut(b.String(), most)
}

// HasCommand reports whether a host or a program could obey a line of a text that is code.
func HasCommand(text string) bool {
	text = returns.Replace(text)
	return command.MatchString(text) || bot.MatchString(text)
}

// withoutMentions breaks the mentions of a line that are not in code.
func withoutMentions(line string) string {
	var b strings.Builder
	last := 0
	text := func(to int) {
		b.WriteString(mention.ReplaceAllString(line[last:to], "$1@"+mentionBreak+"$2"))
	}
	for _, at := range codeSpan.FindAllStringIndex(line, -1) {
		if at[0] > 0 && line[at[0]-1] == '\\' { // an escaped backquote begins no code
			continue
		}
		text(at[0])
		b.WriteString(line[at[0]:at[1]])
		last = at[1]
	}
	text(len(line))
	return b.String()
}

// AsWritten returns a text of a host as it was before [Inert].
func AsWritten(text string) string {
	return strings.ReplaceAll(escapedCommand.ReplaceAllString(text, "$1/$2"), "@"+mentionBreak, "@")
}
