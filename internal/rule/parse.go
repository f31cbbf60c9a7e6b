package rule

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Parse parses a file with rules. Only files in a rule folder (front is true) begin with
// front matter; other files always apply. The complaints describe the ignored parts or,
// if ok is false, why there is no rule.
//
// Front matter is parsed line by line rather than as YAML: `globs: *.ts` is common but
// not valid YAML, and hostile YAML could be expensive.
func Parse(source, folder string, front bool, text string) (r Rule, complaints []string, ok bool) {
	r = Rule{Source: source, From: Repository, When: Always, Folder: folder}
	if strings.ContainsRune(text, 0) {
		return r, []string{"is not a text file"}, false
	}
	text = strings.ReplaceAll(strings.TrimPrefix(strings.ToValidUTF8(text, "\uFFFD"), "\uFEFF"), "\r\n", "\n")
	text, hidden := Visible(text)
	if hidden > 0 {
		complaints = append(complaints, fmt.Sprintf("has %d invisible characters, which were removed", hidden))
	}
	if front {
		var head string
		var found bool
		head, text, found = cutFront(text)
		complaints = append(complaints, r.readFront(head)...)
		if !found && strings.HasPrefix(text, "---\n") {
			complaints = append(complaints, "its front matter has no end")
		}
	}
	r.Text = strings.TrimSpace(text)
	switch {
	case r.Text == "":
		return r, append(complaints, "has no text"), false
	case len(r.Text) > MaxText:
		return r, append(complaints, tooLong(len(r.Text))), false
	}
	return r, complaints, true
}

// ParseSkill parses the file SKILL.md in the folder of a skill. The rule does not
// contain the skill's text: the model reads the file when it uses the skill.
func ParseSkill(source, folder, text string) (r Rule, complaints []string, ok bool) {
	r, complaints, ok = Parse(source, folder, true, text)
	head, _, _ := cutFront(strings.ReplaceAll(strings.TrimPrefix(text, "\uFEFF"), "\r\n", "\n"))
	keys, _ := frontKeys(head)
	r.Kind, r.Text, r.Imports, r.Globs, r.When = Skill, "", nil, nil, OnRequest
	r.Label = oneLine(unquote(prose(keys["name"])), maxName)
	for _, l := range keys["paths"] {
		r.Globs = append(r.Globs, splitGlobs(l)...)
	}
	r.Globs = slices.DeleteFunc(r.Globs, func(g string) bool { return len(g) > maxGlob })
	r.Globs = r.Globs[:min(len(r.Globs), maxGlobs)]
	switch {
	case !ok:
	case unquote(prose(keys["disable-model-invocation"])) == "true":
		r.When = OnMention
	case r.Description == "":
		return r, append(complaints, "has no description, so that a model cannot know what it is for"), false
	}
	return r, complaints, ok
}

// ParseCommand parses a command file: a prompt that a person sends by naming the
// command.
func ParseCommand(source, folder, text string) (r Rule, complaints []string, ok bool) {
	r, complaints, ok = Parse(source, folder, true, text)
	r.Kind, r.Globs, r.When = Command, nil, OnMention
	return r, complaints, ok
}

func tooLong(n int) string { return fmt.Sprintf("has %d bytes, more than %d", n, MaxText) }

// readFront sets the fields of the rule from its front matter.
func (r *Rule) readFront(head string) (complaints []string) {
	keys, strange := frontKeys(head)
	if strange != "" {
		complaints = append(complaints, fmt.Sprintf("its front matter has a line that was ignored: %.80q", strange))
	}
	always := false
	switch value := strings.ToLower(unquote(strings.Join(keys["alwaysApply"], " "))); value {
	case "", "false":
	case "true":
		always = true
	default:
		complaints = append(complaints, fmt.Sprintf("alwaysApply is neither true nor false: %.40q", value))
	}
	r.Description = oneLine(unquote(prose(keys["description"])), maxDescription)
	for _, l := range keys["globs"] {
		for _, g := range splitGlobs(l) {
			switch {
			case len(g) > maxGlob:
				complaints = append(complaints, fmt.Sprintf("a glob has more than %d bytes and was ignored", maxGlob))
			case len(r.Globs) == maxGlobs:
				return append(complaints, fmt.Sprintf("has more than %d globs; the others were ignored", maxGlobs))
			default:
				r.Globs = append(r.Globs, g)
			}
		}
	}
	switch {
	case always:
		r.When, r.Globs = Always, nil
	case len(r.Globs) > 0:
		r.When = OnFiles
	case r.Description != "":
		r.When = OnRequest
	default:
		r.When = OnMention
	}
	return complaints
}

// frontNames are the keys of front matter that are read.
var frontNames = []string{"description", "globs", "alwaysApply", "name", "paths", "disable-model-invocation"}

// frontKeys returns the lines of each key of front matter: the value after the
// colon, and the lines that continue it. strange is the first other line.
func frontKeys(head string) (keys map[string][]string, strange string) {
	keys = map[string][]string{}
	key := ""
	for l := range strings.Lines(head) {
		l = strings.TrimRight(l, "\n")
		trimmed := strings.TrimSpace(l)
		if trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		if name, value, ok := strings.Cut(l, ":"); ok && slices.Contains(frontNames, name) {
			key = name
			keys[key] = []string{strings.TrimSpace(value)}
			continue
		}
		switch {
		case key != "" && (l[0] == ' ' || l[0] == '\t' || strings.HasPrefix(trimmed, "- ")):
			keys[key] = append(keys[key], trimmed)
		case strings.Contains(l, ":") && l[0] != ' ' && l[0] != '\t':
			key = "" // a key for another program
		case key != "" || strange != "":
		case l[0] != ' ' && l[0] != '\t' && !strings.HasPrefix(trimmed, "- "):
			strange = trimmed
		}
	}
	return keys, strange
}

// prose joins the lines of a text, which may be a YAML block.
func prose(lines []string) string {
	if len(lines) > 0 && len(lines[0]) <= 2 && strings.TrimLeft(lines[0], "|>") != lines[0] {
		lines = lines[1:]
	}
	return strings.TrimSpace(strings.Join(lines, " "))
}

// splitGlobs splits a line of globs: a list with commas, in brackets or not, or
// one entry of a YAML list. Commas in braces do not separate.
func splitGlobs(l string) (globs []string) {
	l = strings.TrimPrefix(l, "- ")
	if strings.HasPrefix(l, "[") && strings.HasSuffix(l, "]") && strings.ContainsAny(l, `,"'`) {
		l = l[1 : len(l)-1]
	}
	level, start := 0, 0
	for i := 0; i <= len(l); i++ {
		switch {
		case i == len(l) || l[i] == ',' && level == 0:
			if g := unquote(strings.TrimSpace(l[start:i])); g != "" && g != "[]" {
				globs = append(globs, g)
			}
			start = i + 1
		case l[i] == '{':
			level++
		case l[i] == '}' && level > 0:
			level--
		}
	}
	return globs
}

func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// cutFront splits a file into its front matter and the remaining text.
func cutFront(text string) (head, body string, found bool) {
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", text, false
	}
	if body, ok := strings.CutPrefix(rest, "---\n"); ok {
		return "", body, true
	}
	head, body, ok = strings.Cut(rest+"\n", "\n---\n")
	if !ok {
		return "", text, false
	}
	return head, body, true
}

// oneLine returns text as one line of at most limit characters, without invisible
// characters.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// Visible removes characters that are invisible to a person who reviews the text but
// that a model reads: control characters, marks of text direction, tags and characters
// without width. It keeps joiners, which some scripts and emoji need.
func Visible(text string) (visible string, removed int) {
	visible = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\u200c' || r == '\u200d':
			return r
		case unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || 0xE0100 <= r && r <= 0xE01EF:
			removed++
			return -1
		}
		return r
	}, text)
	return visible, removed
}
