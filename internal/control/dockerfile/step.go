package dockerfile

import (
	"regexp"
	"strings"
)

// location fills in the line of the failed step.
func (f *Failure) location(text string) {
	all, _ := instructions(text) // the instructions before a syntax error are enough
	for _, in := range all {
		if f.Line >= in.line && f.Line <= in.end || f.Line == 0 && f.Step != "" && squeeze(f.Step) == squeeze(in.text) {
			f.Line, f.Step = in.line, squeeze(in.text)
			return
		}
	}
}

// An instruction is one instruction of a Dockerfile, with continued lines
// joined as engines do.
type instruction struct {
	line, end int      // first and last line, from 1, without its here-documents
	text      string   // on one line, without space at either end
	documents []string // lines of its here-documents, including their ends
}

// name returns the instruction's name in capitals.
func (in instruction) name() string {
	word, _, _ := strings.Cut(squeeze(in.text), " ")
	return strings.ToUpper(word)
}

// arguments returns the text after the name.
func (in instruction) arguments() string {
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
	// Words that BuildKit parses as a here-document, and the subset that every
	// shell and parser reads alike.
	hereWord     = regexp.MustCompile(`^\d*<<-?[^<]*$`)
	hereDocument = regexp.MustCompile(`^\d*<<(-?)(?:"([A-Za-z_][A-Za-z0-9_.]*)"|'([A-Za-z_][A-Za-z0-9_.]*)'|([A-Za-z_][A-Za-z0-9_.]*))$`)
)

// known lists the instructions of Dockerfiles.
var known = map[string]bool{
	"ADD": true, "ARG": true, "CMD": true, "COPY": true, "ENTRYPOINT": true, "ENV": true, "EXPOSE": true, "FROM": true, "HEALTHCHECK": true, "LABEL": true,
	"MAINTAINER": true, "ONBUILD": true, "RUN": true, "SHELL": true, "STOPSIGNAL": true, "USER": true, "VOLUME": true, "WORKDIR": true,
}

// instructions splits a Dockerfile. If engines may parse a line differently, it
// returns a [*Failure] and the instructions before that line.
func instructions(text string) (all []instruction, err error) {
	text = strings.TrimPrefix(text, "\uFEFF")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
		if strings.ContainsFunc(lines[i], func(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0xfffd }) {
			return nil, refuse(i+1, "", "it contains a control character or is not UTF-8")
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
		var joined strings.Builder // a step may have hundreds of thousands of lines
		for more := true; more && i < len(lines); i++ {
			line := lines[i]
			if bare := strings.TrimSpace(line); joined.Len() > 0 && (bare == "" || bare[0] == '#') {
				continue // comments are allowed between continued lines
			}
			if bothSlashes.MatchString(line) {
				return all, refuse(i+1, squeeze(line), "engines interpret a line that ends with two backslashes differently")
			}
			if at := continuation.FindStringIndex(line); at != nil {
				line = line[:strings.LastIndexByte(line, '\\')]
			} else {
				more = false
			}
			if joined.Len() == 0 {
				line = strings.TrimLeft(line, " \t")
			}
			joined.WriteString(line)
			in.end = i + 1
		}
		i--
		in.text = strings.Trim(joined.String(), " \t")
		if in.text == "" {
			continue // only a backslash
		}
		if strings.HasSuffix(in.text, `\`) || in.text[0] == '#' {
			return all, refuse(in.line, squeeze(in.text), "engines interpret it differently")
		}
		if !known[in.name()] {
			return all, refuse(in.line, squeeze(in.text), "unknown instruction: "+in.name())
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

// directives refuses parser directives that change how the rest of the file is
// read.
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
				return refuse(i+1, squeeze(line), "custom syntax frontends are not supported: use docker/dockerfile")
			}
		case "escape":
			if value != `\` {
				return refuse(i+1, squeeze(line), `the escape character must be \`)
			}
		case "check":
		default:
			return nil // an ordinary comment ends the directives
		}
	}
	return nil
}

// A hereName is the delimiter of a here-document.
type hereName struct {
	name string
	tabs bool // tabs may precede the delimiter
}

// hereDocuments returns the delimiters of the here-documents that an
// instruction starts.
func (in instruction) hereDocuments() (names []hereName, err error) {
	word := in.name()
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
			return nil, refuse(in.line, squeeze(in.text), "engines interpret this here-document differently: write its delimiter plainly, as in <<EOF")
		}
		names = append(names, hereName{m[2] + m[3] + m[4], m[1] != ""})
	}
	return names, nil
}

// shellWords splits a text at spaces outside of quotes, and keeps the quotes.
// ok is false if a quote is not closed.
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

// squeeze collapses runs of white space into single spaces.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// Steps follows the output of an engine such as buildah or Docker, and
// remembers the current step.
type Steps struct{ Last string }

var stepLine = regexp.MustCompile(`^(?:\[\d+/\d+\] )?(?:STEP|Step) \d+(?:/\d+)? ?: (.*)$`)

// See processes one line of output.
func (s *Steps) See(line string) {
	if m := stepLine.FindStringSubmatch(line); m != nil {
		s.Last = m[1]
	}
}
