package mention

import (
	"regexp"
	"slices"
	"strings"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// Options that a mention may have.
const (
	optionModel  = "model"
	optionBranch = "branch"
)

// request is the request in a comment.
type request struct {
	task   string // first line without options; may be ""
	model  string
	branch string
	review bool // whether to review the pull request; task says what to look for
}

// find returns the text after the first mention of the handle: the rest of its
// line and the lines after it. Quotations and code do not count.
func find(text, handle string) (rest string, ok bool) {
	fence := ""
	for at := 0; at < len(text); {
		line, _, _ := strings.Cut(text[at:], "\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if closes(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, trimmed[:1]))]
		case strings.HasPrefix(trimmed, ">"):
		default:
			if end := mentioned(line, handle); end >= 0 {
				return text[at+end:], true
			}
		}
		at += len(line) + 1
	}
	return "", false
}

// closes reports whether a line ends the code that the fence began: a fence of
// the same character that is at least as long, with nothing after it. A shorter
// fence, such as the fence in a quoted comment, is part of the code.
func closes(line, fence string) bool {
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}

// codeSpan matches code within a line.
var codeSpan = regexp.MustCompile("`[^`]*`")

// mentioned returns the index after the handle in a line, or -1.
func mentioned(line, handle string) int {
	plain := codeSpan.ReplaceAllStringFunc(line, func(s string) string { return strings.Repeat("`", len(s)) })
	want := "@" + handle
	for at := 0; at+len(want) <= len(plain); at++ {
		if !strings.EqualFold(plain[at:at+len(want)], want) {
			continue
		}
		end := at + len(want)
		before := at == 0 || !isNameByte(plain[at-1]) && !strings.ContainsRune("./@", rune(plain[at-1]))
		after := end == len(plain) || !isNameByte(plain[end]) && plain[end] != '/' && !(plain[end] == '.' && end+1 < len(plain) && isNameByte(plain[end+1]))
		if before && after {
			return end
		}
	}
	return -1
}

// isNameByte reports whether a login may contain the byte.
func isNameByte(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// optionGroup matches options in brackets.
var optionGroup = regexp.MustCompile(`\[([^\[\]]*=[^\[\]]*)\]`)

// options returns the options of a line, and the line without them. Brackets
// within a word or of a link do not contain options.
func options(line string) (all []string, rest string) {
	last := 0
	for _, m := range optionGroup.FindAllStringSubmatchIndex(line, -1) {
		from, to := m[0], m[1]
		if from > 0 && !strings.ContainsRune(" \t]", rune(line[from-1])) || to < len(line) && (isNameByte(line[to]) || line[to] == '(' || line[to] == ':') {
			continue
		}
		all = append(all, strings.FieldsFunc(line[m[2]:m[3]], func(r rune) bool { return r == ' ' || r == '\t' || r == ',' || r == '\r' })...)
		rest += line[last:from] + " "
		last = to
	}
	return all, rest + line[last:]
}

// parse returns the request in the text after a mention. The error is a fault
// that says which options are allowed.
func parse(rest string, models []string, onIssue bool) (q request, err error) {
	line, _, _ := strings.Cut(rest, "\n")
	seen := map[string]bool{}
	all, line := options(line)
	for _, o := range all {
		name, value, _ := strings.Cut(o, "=")
		switch {
		case name == optionModel && value != "" && !seen[name]:
			if q.model = value; !slices.Contains(models, value) {
				return q, fault.Invalid("there is no model %s", code(value)).Hint("use %s", codes(models))
			}
		case name == optionBranch && value != "" && !seen[name]:
			if q.branch = value; !onIssue {
				return q, fault.Invalid("the option branch is only for issues: here the agent works on the branch of the pull request")
			}
		default:
			return q, fault.Invalid("the option %s is not valid", code(o)).
				Hint("write `[model=… branch=…]` after the mention, each at most once; models: %s", codes(models))
		}
		seen[name] = true
	}
	line = strings.TrimLeft(forge.Line(line, maxTask), " :,-")
	if word, rest, _ := strings.Cut(line, " "); strings.EqualFold(word, "do") {
		line = rest
	}
	if rest, ok := reviewTask(line); ok && !onIssue {
		q.review, line = true, rest
	}
	q.task = line
	return q, nil
}

// reviewTask returns the rest of a line that begins with the word review.
func reviewTask(line string) (rest string, ok bool) {
	word, rest, _ := strings.Cut(line, " ")
	return strings.TrimSpace(rest), strings.EqualFold(strings.TrimRight(word, ".!,:;"), "review")
}

// AsksReview reports whether a comment on a pull request asks for a review of
// the pull request, by a mention of the handle and the word review.
func AsksReview(text, handle string) bool {
	rest, ok := find(text, handle)
	if !ok {
		return false
	}
	q, err := parse(rest, nil, false)
	if err != nil { // for example an unknown model; its author gets a reply
		line, _, _ := strings.Cut(rest, "\n")
		_, line = options(line)
		_, q.review = reviewTask(strings.TrimLeft(forge.Line(line, maxTask), " :,-"))
	}
	return q.review
}

// code returns untrusted text as Markdown code, in which mentions have no
// effect.
func code(s string) string { return "`" + strings.ReplaceAll(forge.Line(s, 100), "`", "'") + "`" }

func codes(all []string) string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = code(s)
	}
	return strings.Join(out, ", ")
}
