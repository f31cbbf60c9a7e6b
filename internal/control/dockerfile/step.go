package dockerfile

import (
	"regexp"
	"strings"
)

// location finds the failed step in the Dockerfile.
func (f *Failure) location(text string) {
	all, _ := instructions(text) // those before a mistake are enough
	for _, in := range all {
		if f.Line >= in.line && f.Line <= in.end || f.Line == 0 && f.Step != "" && squeeze(f.Step) == squeeze(in.text) {
			f.Line, f.Step = in.line, squeeze(in.text)
			return
		}
	}
}

// An instruction is one of a Dockerfile, its continued lines joined as an engine
// joins them.
type instruction struct {
	line, end int      // the lines that it begins and ends on, from 1, without its here-documents
	text      string   // in one line, without space at either end
	documents []string // the lines of its here-documents, with those that end them
}

// word is the instruction's name, in capitals.
func (in instruction) word() string {
	word, _, _ := strings.Cut(squeeze(in.text), " ")
	return strings.ToUpper(word)
}

// rest is what follows the name.
func (in instruction) rest() string {
	i := strings.IndexAny(in.text, " \t")
	if i < 0 {
		return ""
	}
	return strings.TrimLeft(in.text[i:], " \t")
}

var (
	directive    = regexp.MustCompile(`^#[ \t]*([A-Za-z][A-Za-z0-9]*)[ \t]*=[ \t]*(.*)$`)
	continuation = regexp.MustCompile(`(^|[^\\])\\[ \t]*$`)
	bothSlashes  = regexp.MustCompile(`\\\\[ \t]*$`)
	// What BuildKit takes for a here-document if it is a word, and of those what
	// every shell and parser reads alike.
	hereWord     = regexp.MustCompile(`^\d*<<-?[^<]*$`)
	hereDocument = regexp.MustCompile(`^\d*<<(-?)(?:"([A-Za-z_][A-Za-z0-9_.]*)"|'([A-Za-z_][A-Za-z0-9_.]*)'|([A-Za-z_][A-Za-z0-9_.]*))$`)
)

// known are the instructions of a Dockerfile.
var known = map[string]bool{
	"ADD": true, "ARG": true, "CMD": true, "COPY": true, "ENTRYPOINT": true, "ENV": true, "EXPOSE": true, "FROM": true, "HEALTHCHECK": true, "LABEL": true,
	"MAINTAINER": true, "ONBUILD": true, "RUN": true, "SHELL": true, "STOPSIGNAL": true, "USER": true, "VOLUME": true, "WORKDIR": true,
}

// instructions parts a Dockerfile. What engines read in different ways is a
// [*Failure], and comes with the instructions before it.
func instructions(text string) (all []instruction, err error) {
	text = strings.TrimPrefix(text, "\uFEFF")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
		if strings.ContainsFunc(lines[i], func(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0xfffd }) {
			return nil, refuse(i+1, "", "it holds a control character or is not UTF-8")
		}
	}
	if err := directives(lines); err != nil {
		return nil, err
	}
	for i := 0; i < len(lines); i++ {
		if bare := strings.TrimSpace(lines[i]); bare == "" || bare[0] == '#' {
			continue
		}
		in := instruction{line: i + 1}
		for more := true; more && i < len(lines); i++ {
			line := lines[i]
			if bare := strings.TrimSpace(line); in.text != "" && (bare == "" || bare[0] == '#') {
				continue // also between continued lines
			}
			if bothSlashes.MatchString(line) {
				return all, refuse(i+1, squeeze(line), "engines read a line that ends with two backslashes in different ways")
			}
			if at := continuation.FindStringIndex(line); at != nil {
				line = line[:strings.LastIndexByte(line, '\\')]
			} else {
				more = false
			}
			if in.text == "" {
				line = strings.TrimLeft(line, " \t")
			}
			in.text += line
			in.end = i + 1
		}
		i--
		in.text = strings.Trim(in.text, " \t")
		if in.text == "" {
			continue // a backslash alone
		}
		if strings.HasSuffix(in.text, `\`) || in.text[0] == '#' {
			return all, refuse(in.line, squeeze(in.text), "engines read it in different ways")
		}
		if !known[in.word()] {
			return all, refuse(in.line, squeeze(in.text), "unknown instruction: "+in.word())
		}
		names, err := in.hereDocuments()
		if err != nil {
			return all, err
		}
		for _, name := range names {
			for ended := false; !ended; {
				if i++; i >= len(lines) {
					return all, refuse(in.line, squeeze(in.text), "the here-document "+name.name+" does not end")
				}
				in.documents = append(in.documents, lines[i])
				line := lines[i]
				if name.tabs {
					line = strings.TrimLeft(line, "\t")
				}
				ended = line == name.name
			}
		}
		all = append(all, in)
	}
	return all, nil
}

// directives refuses those that have an engine read the rest of the file in
// another way.
func directives(lines []string) error {
	for i, line := range lines {
		m := directive.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			return nil
		}
		value := strings.TrimSpace(m[2])
		switch strings.ToLower(m[1]) {
		case "syntax":
			if !strings.HasPrefix(strings.TrimPrefix(value, "docker.io/"), "docker/dockerfile:") && value != "docker/dockerfile" {
				return refuse(i+1, squeeze(line), "a syntax of its own is a program that reads the Dockerfile, and is not run: write it in the syntax of docker/dockerfile")
			}
		case "escape":
			if value != `\` {
				return refuse(i+1, squeeze(line), `lines are continued by \ here`)
			}
		case "check":
		default:
			return nil // a remark, which ends the directives
		}
	}
	return nil
}

// A hereName ends a here-document.
type hereName struct {
	name string
	tabs bool // which may stand before it
}

// hereDocuments are the names of those that an instruction begins.
func (in instruction) hereDocuments() (names []hereName, err error) {
	word := in.word()
	if !strings.Contains(in.text, "<<") || word != "RUN" && word != "COPY" && word != "ADD" && word != "ONBUILD" {
		return nil, nil
	}
	words, ok := shellWords(in.text)
	if !ok {
		return nil, refuse(in.line, squeeze(in.text), "a quote in it is not closed, and << may begin a here-document")
	}
	for _, w := range words {
		if !hereWord.MatchString(w) {
			continue
		}
		m := hereDocument.FindStringSubmatch(w)
		if m == nil || word == "ONBUILD" {
			return nil, refuse(in.line, squeeze(in.text), "engines read this here-document in different ways: name it as in <<EOF")
		}
		names = append(names, hereName{m[2] + m[3] + m[4], m[1] != ""})
	}
	return names, nil
}

// shellWords parts a text at the spaces outside of quotes, which stay. ok is
// false where a quote is not closed.
func shellWords(s string) (words []string, ok bool) {
	var word strings.Builder
	quote, escaped := rune(0), false
	for _, r := range s {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case quote == 0 && (r == ' ' || r == '\t'):
			if word.Len() > 0 {
				words = append(words, word.String())
				word.Reset()
			}
			continue
		}
		word.WriteRune(r)
	}
	if word.Len() > 0 {
		words = append(words, word.String())
	}
	return words, quote == 0 && !escaped
}

// squeeze makes one space of every run of them.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// A Steps reads what an engine of buildah's or Docker's kind says, and knows the
// step that it is at.
type Steps struct{ Last string }

var stepLine = regexp.MustCompile(`^(?:\[\d+/\d+\] )?(?:STEP|Step) \d+(?:/\d+)? ?: (.*)$`)

// See looks at one line.
func (s *Steps) See(line string) {
	if m := stepLine.FindStringSubmatch(line); m != nil {
		s.Last = m[1]
	}
}
