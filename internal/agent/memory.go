package agent

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"aloft/internal/conversation"
	"aloft/internal/rule"
)

// Memory holds the facts that a conversation keeps when it is compacted, in addition to
// its prompts and todo list. It is folded from the journal, so it does not depend on the
// model's summary.
type Memory struct {
	// Files are the paths that the conversation's tools have changed, the most
	// recent last, at most 200.
	Files []string `json:"files,omitempty"`
	// Rules are the instructions that the conversation's tools have read, the most recent
	// last, at most 20.
	Rules []Rule `json:"rules,omitempty"`
	// Applied are the rules that the server has given to the model, in order. The text of a
	// rule is "" if the rule was only offered.
	Applied []rule.Rule `json:"applied,omitempty"`
}

// Rule is a text with the project's instructions that the model has read by itself, or
// that a hook has added.
type Rule struct {
	Source string `json:"source"` // path of a file, or [HookRule]
	Text   string `json:"text"`   // at most 16 KiB
}

// HookRule is the source of a rule that a hook has added to the conversation.
const HookRule = "hook"

// Limits of a [Memory].
const (
	maxFiles    = 200
	maxRules    = 20
	maxRuleText = 16 << 10
)

// touch adds paths to the files, or moves them to the end. It does not modify
// the slice, which copies of m share.
func (m *Memory) touch(files ...string) {
	if len(files) == 0 {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(m.Files), func(f string) bool { return slices.Contains(files, f) })
	kept = append(kept, files...)
	m.Files = kept[max(len(kept)-maxFiles, 0):]
}

// learn adds a rule, or replaces the rule from the same source. It does not modify the
// slice, which copies of m share.
func (m *Memory) learn(r Rule) {
	if len(r.Text) > maxRuleText {
		r.Text = strings.ToValidUTF8(r.Text[:maxRuleText], "")
	}
	kept := slices.DeleteFunc(slices.Clone(m.Rules), func(old Rule) bool {
		return old.Source == r.Source && (r.Source != HookRule || old.Text == r.Text)
	})
	kept = append(kept, r)
	m.Rules = kept[max(len(kept)-maxRules, 0):]
}

// note records a successful call with its result text.
func (m *Memory) note(c Call, text string) {
	if file := writtenBy(c); file != "" {
		m.touch(file)
	}
	if c.Name != "Read" {
		return
	}
	var args struct {
		Path   string          `json:"path"`
		Offset json.RawMessage `json:"offset"`
		Limit  json.RawMessage `json:"limit"`
	}
	if json.Unmarshal(c.Args, &args) != nil || !isRuleFile(args.Path) {
		return
	}
	if part := args.Offset != nil || args.Limit != nil; part && slices.ContainsFunc(m.Rules, func(r Rule) bool { return r.Source == args.Path }) {
		return // the whole file may already be known
	}
	m.learn(Rule{Source: args.Path, Text: text})
}

// writtenBy returns the path of the file that a call writes or deletes, or "".
func writtenBy(c Call) string {
	switch c.Name {
	case "Write", "StrReplace", "Delete", "EditNotebook":
	default:
		return ""
	}
	var args struct {
		Path     string `json:"path"`
		Notebook string `json:"target_notebook"`
	}
	_ = json.Unmarshal(c.Args, &args) // invalid arguments name no file
	return args.Path + args.Notebook
}

// isRuleFile reports whether the file name is one in which projects keep
// instructions for agents.
func isRuleFile(file string) bool {
	file = strings.ToLower(path.Clean("/" + file))
	switch path.Base(file) {
	case "agents.md", "claude.md", "contributing.md", ".cursorrules", "skill.md":
		return true
	}
	for _, folder := range []string{"/.aloft/rules/", "/.cursor/rules/", "/.claude/rules/"} {
		if strings.Contains(file, folder) {
			return true
		}
	}
	return false
}

// PromptImages returns the images that came with prompts, in order. It excludes
// images in tool results.
func PromptImages(messages []conversation.Message) []*conversation.Image {
	var images []*conversation.Image
	for _, m := range messages {
		for _, b := range m.Blocks {
			if b.Image != nil {
				images = append(images, b.Image)
			}
		}
	}
	return images
}
