package rule

import (
	"path"
	"slices"
	"strings"
)

// Work describes the parts of a conversation on which rules depend.
type Work struct {
	Prompt  string   // prompt of the run
	Touched []string // files and folders that tools have used, relative to the workspace
}

// Due returns the rules that apply to the work and that the model does not have yet with
// the same text, in order of precedence. If the model chooses a rule by its description,
// Due returns the rule without its text.
func Due(all, given []Rule, w Work) (due []Rule) {
	for _, r := range all {
		switch {
		case r.applies(w):
			if !slices.ContainsFunc(given, r.Same) {
				due = append(due, r)
			}
		case r.When == OnRequest && (len(r.Globs) == 0 || slices.ContainsFunc(w.Touched, r.matches)):
			if r.Text = ""; !slices.ContainsFunc(given, func(g Rule) bool { return g.Is(r) && g.Description == r.Description }) {
				due = append(due, r)
			}
		}
	}
	Order(due)
	return due
}

func (r Rule) applies(w Work) bool {
	switch {
	case r.When == Always && !r.Nested,
		r.When == Always && slices.ContainsFunc(w.Touched, r.Touches),
		slices.ContainsFunc(w.Touched, r.Matches):
		return true
	}
	return (r.From == Repository || r.Kind == Skill) && r.Mentions(w.Prompt)
}

// Next returns the next message about rules for a model. all holds the known rules, and
// given the rules that the model has. room is the maximum size in bytes of all rules. ok
// is false if no message is needed.
func Next(all, given Set, w Work, room int) (m Message, ok bool) {
	due := slices.DeleteFunc(Due(all.Rules, given.Rules, w), func(r Rule) bool {
		return slices.ContainsFunc(given.LeftOut, func(l LeftOut) bool { return l.Budget && l.Source == r.Source })
	})
	m.LeftOut = slices.DeleteFunc(slices.Clone(all.LeftOut), func(l LeftOut) bool { return slices.Contains(given.LeftOut, l) })
	if len(due) == 0 && len(m.LeftOut) == 0 {
		return m, false
	}
	m.More = len(given.Rules) > 0
	for _, r := range given.Rules {
		room -= len(r.Text)
		if r.Text != "" && slices.ContainsFunc(due, r.Is) {
			m.Replaced = append(m.Replaced, r.Source)
		}
	}
	var left []LeftOut
	m.Rules, left = Fit(due, room)
	m.LeftOut = append(m.LeftOut, left...)
	return m, true
}

// foreign are folders with files from elsewhere. Rules in them are not the repository's.
var foreign = []string{".git", "node_modules", "vendor", ".venv", "site-packages"}

// maxNesting limits how deep a folder may be whose rules are read.
const maxNesting = 16

// Nested returns the folders below the root of a repository on the path to file,
// including file itself, since it may be a folder. All paths are relative to the
// workspace. Nested returns none if file is not in the repository, or is in a folder of
// dependencies.
func Nested(root, file string) (folders []string) {
	below := file
	if root != "" {
		var ok bool
		if below, ok = strings.CutPrefix(file, root+"/"); !ok {
			return nil
		}
	}
	at := root
	for i, name := range strings.Split(below, "/") {
		if i == maxNesting || slices.Contains(foreign, name) {
			return folders
		}
		at = path.Join(at, name)
		folders = append(folders, at)
	}
	return folders
}
