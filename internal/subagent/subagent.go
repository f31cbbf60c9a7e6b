// Package subagent defines the available subagents: Aloft's own, those that the request
// for an agent defines, and those that a repository defines in .cursor/agents,
// .claude/agents and .codex/agents. A repository's definitions are untrusted: this
// package limits their size, and a model is told where they come from.
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
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// Aloft's own subagents.
const (
	General       = "generalPurpose"
	Explore       = "explore"
	Debug         = "debug"
	ComputerUse   = "computerUse"
	VideoReview   = "videoReview"
	VMSetupHelper = "vmSetupHelper"
)

// Offered are the subagents that every model is offered.
var Offered = []Definition{
	{Name: General, Description: "any task: research, search, changes in several steps"},
	{Name: Explore, Description: "quickly finds out how code works or where something is; read-only", ReadOnly: true},
	{Name: Debug, Description: "finds the cause of a bug by forming and testing hypotheses; the next call continues its conversation"},
	{Name: VideoReview, Description: "looks at the videos and images in attachments and describes them; read-only", ReadOnly: true},
	{Name: VMSetupHelper, Description: "finds out what a machine needs to build and test the project, and saves it"},
}

// OnDesktop is also offered if the machine has a desktop.
var OnDesktop = Definition{Name: ComputerUse, Description: "uses graphical programs, such as a browser, with mouse and keyboard, and looks at the screen; the next call continues its conversation"}

// missing maps subagents to requirements that not every machine meets.
var missing = map[string]string{
	ComputerUse: "a desktop in the machine",
}

// reserved names cannot be defined by repositories.
var reserved = []string{General, Explore, Debug, ComputerUse, VideoReview, VMSetupHelper, "bash", "shell", "browserUse", "cursorGuide"}

// Models that are not ids in the configuration.
const (
	Inherit = "inherit" // the parent's model
	Fast    = "fast"    // the configuration's fast model
)

// A Definition is a kind of subagent.
type Definition struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Model       string `json:"model,omitempty"` // Fast, Inherit, or an id; "" is Inherit
	ReadOnly    bool   `json:"readOnly,omitempty"`
	Background  bool   `json:"background,omitempty"` // runs in the background by default
	Words       string `json:"words,omitempty"`      // added to its system prompt
	File        string `json:"file,omitempty"`       // the file that defines it; "" if Aloft or the agent's creator does
}

// Stateful reports whether the next call of this kind continues the previous
// subagent's conversation by default.
func (d Definition) Stateful() bool {
	return d.File == "" && (d.Name == Debug || d.Name == ComputerUse)
}

// Looks reports whether the subagent needs a model that accepts images.
func (d Definition) Looks() bool {
	return d.File == "" && (d.Name == VideoReview || d.Name == ComputerUse)
}

// Find returns the definition with that name; "" means [General]. It searches Aloft's
// own definitions and others. The error is for the model.
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
	return Definition{}, fmt.Errorf("there is no subagent %q; available: %s", name, strings.Join(names, ", "))
}

// Limits of a repository's definitions.
const (
	MaxFile        = 64 << 10 // bytes of a file; larger ones are ignored
	MaxFiles       = 30       // in all folders
	maxName        = 64       // runes
	maxDescription = 400      // runes
)

// Limits of definitions in the request for an agent; they are part of the API.
const (
	MaxGiven            = 20
	maxGivenName        = 100  // runes
	maxGivenDescription = 1000 // runes
	maxGivenWords       = 8192 // runes
)

// Check validates a definition from the request for an agent. It returns the
// first invalid field and the error, or nil.
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
		return "name", fmt.Errorf("%s is a name of Aloft's own subagents", d.Name)
	}
	return "", nil
}

func isReserved(name string) bool {
	return slices.ContainsFunc(reserved, func(r string) bool { return strings.EqualFold(r, name) })
}

// Folders contain a repository's definitions. If several define a name, the first folder
// wins.
var Folders = []string{".cursor/agents", ".claude/agents", ".codex/agents"}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// Parse parses the valid parts of a definition. The complaints describe the
// ignored parts or, if ok is false, why there is no definition.
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
	} else if !bounded(front) || yaml.Unmarshal([]byte(front), &head) != nil {
		head = plainPairs(front) // not valid YAML, for example because of a colon in the description
		complain("its front matter is not YAML, or has aliases or more than %d tokens; it is read line by line", maxTokens)
	}
	text := func(key string) string {
		v, ok := head[key]
		if s, isText := v.(string); isText {
			return line(s)
		}
		if ok && v != nil {
			complain("%s is not text", key)
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
		complain("the name %.80q is not valid: use at most %d letters, digits, - _ and .", d.Name, maxName)
	case isReserved(d.Name):
		complain("the name %s is reserved", d.Name)
	case d.Words == "":
		complain("has no text below its front matter")
	default:
		ok = true
	}
	if ok && d.Description == "" {
		complain("has no description: a model can only guess what it is for")
	}
	return d, complaints, ok
}

// Collect combines the definitions in a repository's files, in order. If several have
// the same name, the first wins.
func Collect(files []File) (all []Definition, complaints []string) {
	for _, f := range files {
		d, wrong, ok := Parse(f.Path, f.Data)
		complaints = append(complaints, wrong...)
		switch {
		case !ok:
		case slices.ContainsFunc(all, func(o Definition) bool { return o.Name == d.Name }):
			complaints = append(complaints, f.Path+": "+d.Name+" is already defined")
		case len(all) == MaxFiles:
			complaints = append(complaints, fmt.Sprintf("%s: more than %d subagents", f.Path, MaxFiles))
			return all, complaints
		default:
			all = append(all, d)
		}
	}
	return all, complaints
}

// A File is a file in a folder of definitions.
type File struct {
	Path string // path in the repository
	Data []byte
}

// cutFront splits a file into its front matter and the remaining text.
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

// maxTokens limits the YAML tokens of front matter.
const maxTokens = 1000

// bounded reports whether the cost of parsing front matter as YAML is limited. A few
// aliases of aliases would stand for billions of values, and the parser's cost grows
// with the square of the nesting.
func bounded(front string) bool {
	tokens := lexer.Tokenize(front)
	return len(tokens) <= maxTokens && !slices.ContainsFunc(tokens, func(t *token.Token) bool { return t.Type == token.AliasType })
}

// plainPairs parses lines of key: value.
func plainPairs(front string) map[string]any {
	out := map[string]any{}
	for l := range strings.Lines(front) {
		if key, value, ok := strings.Cut(l, ":"); ok {
			out[strings.TrimSpace(key)] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return out
}

// line returns text on one line, without invisible characters.
func line(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
}

func cut(s string, runes int) string {
	if r := []rune(s); len(r) > runes {
		return string(r[:runes-1]) + "…"
	}
	return s
}
