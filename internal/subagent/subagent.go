// Package subagent says which subagents there are: those that Aloft has, those
// that come with the wish for an agent, and those that a repository defines in
// .cursor/agents, .claude/agents and .codex/agents. What a repository says is foreign text: it is bounded here, and
// whoever gives it to a model says whose words they are.
package subagent

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
)

// The subagents that Aloft has.
const (
	General       = "generalPurpose"
	Explore       = "explore"
	Debug         = "debug"
	ComputerUse   = "computerUse"
	VideoReview   = "videoReview"
	VMSetupHelper = "vmSetupHelper"
)

// Offered are those that a model is told of.
var Offered = []Definition{
	{Name: General, Description: "any work: research, search, changes of several steps"},
	{Name: Explore, Description: "finds out how code works or where something is, fast; only reads", ReadOnly: true},
	{Name: Debug, Description: "finds the cause of a bug by hypotheses that it tests; the next call goes on with the same one"},
	{Name: VideoReview, Description: "looks at videos and pictures, which attachments names, and says what they show; only reads", ReadOnly: true},
	{Name: VMSetupHelper, Description: "finds out what a machine needs to build and test the project, and keeps it"},
}

// OnDesktop is offered beside them where the machine has a desktop.
var OnDesktop = Definition{Name: ComputerUse, Description: "uses programs with windows, such as a browser, by pointer and keyboard, and looks at the screen; the next call goes on with the same one"}

// missing are those that need what machines do not have, and what that is.
var missing = map[string]string{
	ComputerUse: "a desktop in the machine",
}

// reserved names are no repository's to define.
var reserved = []string{General, Explore, Debug, ComputerUse, VideoReview, VMSetupHelper, "bash", "shell", "browserUse", "cursorGuide"}

// Models that are no ids of the configuration.
const (
	Inherit = "inherit" // the parent's
	Fast    = "fast"    // the one that the configuration names so
)

// A Definition is a kind of subagent.
type Definition struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Model       string `json:"model,omitempty"` // Fast, Inherit, or an id; "" is Inherit
	ReadOnly    bool   `json:"readOnly,omitempty"`
	Background  bool   `json:"background,omitempty"` // asks for its parent not to wait for it
	Words       string `json:"words,omitempty"`      // of its system prompt
	File        string `json:"file,omitempty"`       // where it is defined; "" is Aloft, or whoever made the agent
}

// Stateful reports whether the next call of the kind goes on with the subagent
// that worked last, unless it is told otherwise.
func (d Definition) Stateful() bool {
	return d.File == "" && (d.Name == Debug || d.Name == ComputerUse)
}

// Looks reports whether it can do nothing with a model that is given no pictures.
func (d Definition) Looks() bool {
	return d.File == "" && (d.Name == VideoReview || d.Name == ComputerUse)
}

// Find returns the definition of that name, "" for [General]: Aloft's own, or one
// of the others. The error is for the model to read.
func Find(name string, others []Definition) (Definition, error) {
	if name == "" {
		name = General
	}
	all := slices.Concat(Offered, others)
	names := make([]string, len(all))
	for i, d := range all {
		if d.Name == name {
			return d, nil
		}
		names[i] = d.Name
	}
	if needs, ok := missing[name]; ok {
		return Definition{}, fmt.Errorf("%s is not available: needs %s", name, needs)
	}
	return Definition{}, fmt.Errorf("there is no subagent %q; there are %s", name, strings.Join(names, ", "))
}

// Bounds of what a repository defines.
const (
	MaxFile        = 64 << 10 // bytes of a file; what is longer is left out
	MaxFiles       = 30       // of all folders
	maxName        = 64       // runes
	maxDescription = 400      // runes
)

// Bounds of what whoever makes an agent defines, which a client may count on.
const (
	MaxGiven            = 20
	maxGivenName        = 100  // runes
	maxGivenDescription = 1000 // runes
	maxGivenWords       = 8192 // runes
)

// Check returns what is wrong with a definition that came with the wish for an
// agent, and with which of its fields; nil if nothing is.
func Check(d Definition) (field string, err error) {
	within := func(name, text string, most int) error {
		switch n := utf8.RuneCountInString(text); {
		case strings.TrimSpace(text) == "":
			field = name
			return errors.New("is required")
		case n > most:
			field = name
			return fmt.Errorf("has %d characters; at most %d are accepted", n, most)
		}
		return nil
	}
	if err := cmp.Or(within("name", d.Name, maxGivenName), within("description", d.Description, maxGivenDescription), within("prompt", d.Words, maxGivenWords)); err != nil {
		return field, err
	}
	switch {
	case line(d.Name) != d.Name:
		return "name", errors.New("must be one line, without spaces around it")
	case isReserved(d.Name):
		return "name", fmt.Errorf("%s is Aloft's own", d.Name)
	}
	return "", nil
}

func isReserved(name string) bool {
	return slices.ContainsFunc(reserved, func(r string) bool { return strings.EqualFold(r, name) })
}

// Folders hold a repository's definitions; the first that defines a name counts.
var Folders = []string{".cursor/agents", ".claude/agents", ".codex/agents"}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// Parse reads a definition. It takes what it can: a complaint says what it did
// not, and where ok is false, why there is none.
func Parse(file string, data []byte) (d Definition, complaints []string, ok bool) {
	complain := func(format string, args ...any) {
		complaints = append(complaints, file+": "+fmt.Sprintf(format, args...))
	}
	if len(data) > MaxFile {
		complain("has %d bytes, more than %d", len(data), MaxFile)
		return d, complaints, false
	}
	front, body, found := cutFront(strings.ToValidUTF8(string(data), "\uFFFD"))
	head := map[string]any{}
	if !found {
		complain("has no front matter between two lines of ---")
	} else if err := yaml.Unmarshal([]byte(front), &head); err != nil {
		head = plainPairs(front) // such as a description with a colon in it
		complain("its front matter is no YAML; it is read line by line")
	}
	text := func(key string) string {
		v, ok := head[key]
		if s, isText := v.(string); isText {
			return line(s)
		}
		if ok && v != nil {
			complain("%s is no text", key)
		}
		return ""
	}
	flag := func(key string) bool {
		switch v := head[key].(type) {
		case nil:
			return false
		case bool:
			return v
		case string:
			if v == "true" || v == "false" {
				return v == "true"
			}
		}
		complain("%s is neither true nor false", key)
		return false
	}
	d = Definition{
		Name: text("name"), Description: cut(text("description"), maxDescription), Model: text("model"),
		ReadOnly: flag("readonly"), Background: flag("is_background"), Words: strings.TrimSpace(body), File: file,
	}
	if d.Name == "" {
		d.Name = strings.TrimSuffix(path.Base(file), path.Ext(file))
	}
	switch {
	case !nameForm.MatchString(d.Name) || len(d.Name) > maxName:
		complain("the name %.80q is not made of at most %d letters, digits, - _ and .", d.Name, maxName)
	case isReserved(d.Name):
		complain("the name %s is Aloft's own", d.Name)
	case d.Words == "":
		complain("says nothing below its front matter")
	default:
		ok = true
	}
	if ok && d.Description == "" {
		complain("has no description: a model can only guess what it is for")
	}
	return d, complaints, ok
}

// Collect joins what the files of a repository define, in their order: of two of
// one name the first counts.
func Collect(files []File) (all []Definition, complaints []string) {
	for _, f := range files {
		d, wrong, ok := Parse(f.Path, f.Data)
		complaints = append(complaints, wrong...)
		switch {
		case !ok:
		case slices.ContainsFunc(all, func(o Definition) bool { return o.Name == d.Name }):
			complaints = append(complaints, f.Path+": "+d.Name+" is defined already")
		case len(all) == MaxFiles:
			complaints = append(complaints, fmt.Sprintf("%s: more than %d subagents", f.Path, MaxFiles))
			return all, complaints
		default:
			all = append(all, d)
		}
	}
	return all, complaints
}

// A File is one in a folder of definitions.
type File struct {
	Path string // in the repository
	Data []byte
}

// cutFront takes the front matter off a file.
func cutFront(text string) (front, body string, found bool) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\uFEFF"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", text, false
	}
	if body, ok := strings.CutPrefix(rest, "---\n"); ok {
		return "", body, true
	}
	front, body, ok = strings.Cut(rest+"\n", "\n---\n")
	if !ok {
		return "", text, false
	}
	return front, body, true
}

// plainPairs reads lines of key: value.
func plainPairs(front string) map[string]any {
	out := map[string]any{}
	for l := range strings.Lines(front) {
		if key, value, ok := strings.Cut(l, ":"); ok {
			out[strings.TrimSpace(key)] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return out
}

// line is the text on one line, without what no line shows.
func line(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
}

func cut(s string, runes int) string {
	if r := []rune(s); len(r) > runes {
		return string(r[:runes-1]) + "…"
	}
	return s
}
