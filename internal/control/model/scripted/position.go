package scripted

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// position is the position in a script that a request has reached.
type position struct {
	script  *Script
	number  int // index of the script
	turn    int // number of the turn since the prompt, from 0
	prompt  string
	groups  []string
	results []string
	key     string // identifies this request within its conversation
	summary string // the reply to a request for a summary; if set, nothing else matters
}

// The progress in the script is stored in call ids, which a summary request
// contains, and in the summary, which later requests contain.
var (
	summaryMark = regexp.MustCompile(`\[script (\d+), (\d+) turns played\]`)
	callMark    = regexp.MustCompile(`\[call call_(\d+)_(\d+)_\d+_[0-9a-f]{8} `)
)

// find derives the script and the turn from the request alone.
func find(f *File, req model.Request) position {
	p := 0 // the index of the newest prompt
	for i, m := range req.Messages {
		if isPrompt(m) {
			p = i
		}
	}
	at := position{prompt: req.Messages[p].PlainText(), number: -1}
	if len(req.Tools) == 0 {
		// Only a request for a summary has no tools.
		if m := callMark.FindAllStringSubmatch(at.prompt, -1); m != nil {
			last := m[len(m)-1]
			turn, _ := strconv.Atoi(last[2])
			at.summary = fmt.Sprintf("[script %s, %d turns played]", last[1], turn+1)
			return at
		}
	}
	for _, m := range req.Messages[p:] {
		if m.Role == conversation.Assistant {
			at.turn++
		}
	}
	for i := range f.Scripts {
		if s := &f.Scripts[i]; at.script == nil && s.pattern.MatchString(at.prompt) {
			at.script, at.number, at.groups = s, i, s.pattern.FindStringSubmatch(at.prompt)
		}
	}
	if m := summaryMark.FindStringSubmatch(at.prompt); m != nil {
		number, _ := strconv.Atoi(m[1])
		played, err := strconv.Atoi(m[2])
		if err == nil && number < len(f.Scripts) && played < 1<<30 {
			at.script, at.number = &f.Scripts[number], number
			at.groups = at.script.pattern.FindStringSubmatch(at.prompt)
			at.turn += played
		}
	}
	last := req.Messages[len(req.Messages)-1]
	before := ""
	for _, b := range last.Blocks {
		if b.Result != nil {
			at.results = append(at.results, b.Result.Text)
			before += b.Result.CallID + " "
		}
	}
	at.key = fmt.Sprintf("%d %d %s %s", len(req.Messages), at.turn, before, at.prompt)
	return at
}

// isPrompt distinguishes a person's message from tool results. A message with
// both was merged from an aborted run and the prompt after it; in an
// uninterrupted run, only the server's own text accompanies results.
func isPrompt(m conversation.Message) bool {
	if m.Role != conversation.User || strings.TrimSpace(m.PlainText()) == "" && !hasImage(m) {
		return false
	}
	for _, b := range m.Blocks {
		if b.Result != nil {
			return false
		}
	}
	return true
}

func hasImage(m conversation.Message) bool {
	for _, b := range m.Blocks {
		if b.Image != nil {
			return true
		}
	}
	return false
}

// funcs returns the functions for templates.
func (at position) funcs() template.FuncMap {
	return template.FuncMap{
		"prompt":  func() string { return at.prompt },
		"turn":    func() int { return at.turn },
		"results": func() string { return strings.Join(at.results, "\n") },
		"result": func(n int) string {
			if n < 0 || n >= len(at.results) {
				return ""
			}
			return at.results[n]
		},
		"match": func(n int) string {
			if n < 0 || n >= len(at.groups) {
				return ""
			}
			return at.groups[n]
		},
		"find": func(re string) (string, error) {
			r, err := regexp.Compile(re)
			if err != nil {
				return "", err
			}
			m := r.FindStringSubmatch(strings.Join(at.results, "\n"))
			if len(m) == 0 {
				return "", nil
			}
			return m[min(1, len(m)-1)], nil
		},
	}
}
