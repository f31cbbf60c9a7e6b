package dockerfile

import (
	"regexp"
	"strings"
)

// place finds the failed step in the Dockerfile.
func (f *Failure) place(text string) {
	all := instructions(text)
	for _, in := range all {
		if f.Line == in.line || f.Line == 0 && f.Step != "" && squeeze(f.Step) == squeeze(in.text) {
			f.Line, f.Step = in.line, squeeze(in.text)
			return
		}
	}
}

// An instruction is one of a Dockerfile, its continued lines joined.
type instruction struct {
	line int // where it begins, from 1
	text string
}

var (
	escapeDirective = regexp.MustCompile("(?im)\\A(?:\\s*#[^\\n]*\\n)*?\\s*#\\s*escape\\s*=\\s*([\\\\`])")
	hereDocument    = regexp.MustCompile(`<<-?\s*["']?([A-Za-z_][A-Za-z0-9_]*)["']?`)
)

// instructions parts a Dockerfile. It is for finding lines, not for building:
// what is wrong in it is the engine's to say.
func instructions(text string) []instruction {
	escape := `\`
	if m := escapeDirective.FindStringSubmatch(text); m != nil {
		escape = m[1]
	}
	var out []instruction
	var now *instruction
	ends := "" // of the here-document that is being read
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, "\r \t")
		bare := strings.TrimSpace(line)
		switch {
		case ends != "":
			if bare == ends {
				ends = ""
			}
			continue
		case bare == "" || strings.HasPrefix(bare, "#"):
			continue // also between continued lines
		case now == nil:
			out = append(out, instruction{line: i + 1})
			now = &out[len(out)-1]
		}
		cut, more := strings.CutSuffix(line, escape)
		now.text += cut + " "
		if more {
			continue
		}
		if m := hereDocument.FindStringSubmatch(now.text); m != nil {
			ends = m[1]
		}
		now = nil
	}
	return out
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
