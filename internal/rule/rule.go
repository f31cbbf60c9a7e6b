// Package rule defines rules: texts in which a team, a repository or a user tells agents
// how to work. It parses the files of a repository, selects the rules that apply to a
// piece of work, and formats them for a model. Rules guide the work; they never grant a
// permission.
package rule

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A Rule is the text of one rule, with its origin and when it applies.
type Rule struct {
	// Source is the path of the rule's file below the workspace. For a rule of the team or
	// of a user, it is [File], or [SkillsFile] followed by the name of the skill. For a
	// memory, it is memory/ and its id.
	Source string `json:"source"`
	Kind   Kind   `json:"kind,omitempty"`
	Label  string `json:"name,omitempty"` // name of a skill; if "", the name of its folder
	From   From   `json:"from"`
	When   When   `json:"when"`
	// Folder is the folder below the workspace to which the rule applies; ""
	// is the workspace itself.
	Folder string `json:"folder,omitempty"`
	// Nested reports whether Folder is below the root of its repository.
	Nested      bool     `json:"nested,omitempty"`
	Globs       []string `json:"globs,omitempty"`       // for [OnFiles], relative to Folder
	Description string   `json:"description,omitempty"` // when to use the rule
	Imports     []string `json:"imports,omitempty"`     // files whose text is part of Text
	Text        string   `json:"text"`                  // "" for a skill in the journal: the model reads the skill's file
}

// File is the name under which the server stores the rules of the team and of
// each user.
const File = "rules.md"

// Kind is the kind of a rule.
type Kind string

// The kinds of rules. A prompt mentions a skill or a command as /name.
const (
	Plain   Kind = ""
	Skill   Kind = "skill"   // instructions for a task, in a folder with the files that they need
	Command Kind = "command" // a prompt that a person sends with /name
)

// From is the author of a rule.
type From string

// The authors, in order of precedence.
const (
	Team       From = "team"
	Repository From = "repository"
	User       From = "user"
	Memory     From = "memory" // an agent of an earlier run; see package memory
)

// When says when a model receives a rule.
type When string

// The ways to apply a rule. Every rule is also applied if a prompt mentions its
// name after an @.
const (
	Always    When = "always"
	OnFiles   When = "files"   // when a tool touches a file that matches a glob
	OnRequest When = "request" // the model receives the description, and reads the file if the description fits
	OnMention When = "mention"
)

// LeftOut describes a rule, or a part of a rule, that is not used.
type LeftOut struct {
	Source string `json:"source"`
	Why    string `json:"why"`
	// Budget says that the rule applies, and is left out only because the conversation has
	// too many rules.
	Budget bool `json:"budget,omitempty"`
}

// A Set is a list of rules, and a list of omitted rules.
type Set struct {
	Rules   []Rule    `json:"rules,omitempty"`
	LeftOut []LeftOut `json:"leftOut,omitempty"`
}

// Limits of a rule. A rule that is too long is left out completely, because a part of a
// rule may say the opposite of the whole.
const (
	MaxText        = 64 << 10 // bytes, with its imports
	MaxRules       = 300      // of one agent
	MaxTotal       = 512 << 10
	MaxLeftOut     = 50
	maxGlobs       = 30
	maxGlob        = 300      // bytes
	maxGlobCost    = 64 << 10 // cost of all globs that are admitted at once; see globCost
	maxDescription = 1000     // characters
	maxSource      = 500
	maxName        = 100 // characters
)

// Name returns the name by which a prompt can mention the rule: the file's name
// without its extension, or the name of a skill.
func (r Rule) Name() string {
	if r.Kind == Skill {
		return cmp.Or(r.Label, path.Base(path.Dir(r.Source)))
	}
	base := path.Base(r.Source)
	return strings.TrimSuffix(base, path.Ext(base))
}

// Path returns the absolute path of the rule's file in the machine.
func (r Rule) Path(workspace string) string {
	if r.Kind == Skill && r.From != Repository {
		return path.Join(SkillsFolder, string(r.From), r.Name(), "SKILL.md")
	}
	return path.Join(workspace, r.Source)
}

// Tokens estimates the number of tokens in the text.
func (r Rule) Tokens() int { return (len(r.Text) + charsPerToken - 1) / charsPerToken }

// charsPerToken is the average for English and code.
const charsPerToken = 4

// Is reports whether two rules come from the same file.
func (r Rule) Is(o Rule) bool { return r.From == o.From && r.Source == o.Source }

// Same reports whether two rules have the same source and text.
func (r Rule) Same(o Rule) bool { return r.Is(o) && r.Text == o.Text }

// relative reports whether a path below the workspace is in the rule's folder, and
// returns it relative to that folder.
func (r Rule) relative(file string) (string, bool) {
	if r.Folder == "" {
		return file, true
	}
	return strings.CutPrefix(file, r.Folder+"/")
}

// Matches reports whether the rule applies to files and one of its globs matches file,
// whose path is relative to the workspace.
func (r Rule) Matches(file string) bool { return r.When == OnFiles && r.matches(file) }

func (r Rule) matches(file string) bool {
	below, ok := r.relative(file)
	return ok && slices.ContainsFunc(r.Globs, func(g string) bool { return matchGlob(g, below) })
}

// Touches reports whether a file or folder, relative to the workspace, is the
// rule's folder or inside it.
func (r Rule) Touches(file string) bool {
	_, ok := r.relative(file)
	return ok || file == r.Folder
}

// Mentions reports whether a prompt mentions the rule, as @name or @path, or as
// /name if it is a skill or a command.
func (r Rule) Mentions(prompt string) bool {
	marks := "@"
	if r.Kind != Plain {
		marks = "@/"
	}
	for rest := prompt; ; {
		at := strings.IndexAny(rest, marks)
		if at < 0 {
			return false
		}
		before := rest[:at]
		rest = rest[at+1:]
		if before != "" && isNameByte(before[len(before)-1]) {
			continue // an email address, for example
		}
		end := 0
		for end < len(rest) && (isNameByte(rest[end]) || rest[end] == '/') {
			end++
		}
		if said := strings.TrimRight(rest[:end], "."); said != "" && (said == r.Name() || said == path.Base(r.Source) || said == r.Source) {
			return true
		}
	}
}

func isNameByte(c byte) bool {
	return c == '.' || c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// Order sorts rules: the team's, then the repositories', then the user's, then memories.
// Within a repository, rules of deeper folders come later, because they take precedence.
// The sort is stable.
func Order(rules []Rule) {
	rank := map[From]int{Team: 0, Repository: 1, User: 2, Memory: 3}
	slices.SortStableFunc(rules, func(a, b Rule) int {
		if a.From != b.From {
			return rank[a.From] - rank[b.From]
		}
		return depth(a.Folder) - depth(b.Folder)
	})
}

func depth(folder string) int {
	if folder == "" {
		return 0
	}
	return 1 + strings.Count(folder, "/")
}
