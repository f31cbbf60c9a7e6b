// Package rulebook finds the rules and skills that apply to a run: those of the
// team, of the agent's owner, and in the repositories.
package rulebook

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/rule"
)

// Limits of reading rules and of giving them to the model.
const (
	mostGiven     = 80 << 10 // bytes of rules for one conversation; less if its context window is small
	maxAtOnce     = 30       // folders per request to the machine
	maxReadInRun  = 2000     // folders per run
	maxTouchedNow = 100      // files considered per reply
)

// Share is the part of a context window that rules may take: 10 is a tenth.
const Share = 10

// Machine reads the rules of folders of the repositories. Its errors wrap
// [remote.ErrLost] if the machine is gone.
type Machine interface {
	Rules(ctx context.Context, folders []rule.Folder) (rule.Set, error)
}

// Book reads the rules of a run. Its methods are safe for concurrent use.
type Book struct {
	// Own returns the rules and skills of the team and of the agent's owner. If
	// it is nil, there are none.
	Own func(ctx context.Context, a agent.Agent) ([]rule.Rule, error)
	Log *slog.Logger

	read readFolders
}

// Find reads the rules at the beginning of a run: those of the team, of the
// owner, of the repositories' roots, and of the folders in which earlier runs
// found rules. It returns nil if nothing has changed. m may be nil.
func (b *Book) Find(ctx context.Context, s *agent.State, m Machine) (*agent.RulesFound, error) {
	if s.Run.Turns > 0 {
		return nil, nil
	}
	var found agent.RulesFound
	if b.Own != nil {
		var err error
		if found.Rules, err = b.Own(ctx, s.Agent); err != nil {
			return nil, err
		}
		found.Rules = withoutFiles(found.Rules)
	}
	theirs, err := b.readRules(ctx, m, b.read.fresh(folders(s)))
	if err != nil {
		return nil, err
	}
	found.Rules, found.LeftOut = append(found.Rules, theirs.Rules...), theirs.LeftOut
	if slices.EqualFunc(found.Rules, s.Found.Rules, sameRule) && slices.Equal(found.LeftOut, s.Found.LeftOut) {
		return nil, nil
	}
	return &found, nil
}

// folders returns the roots of the repositories, and the folders in which rules were
// found below them.
func folders(s *agent.State) (folders []rule.Folder) {
	roots := repositories(s)
	for _, root := range roots {
		folders = append(folders, rule.Folder{Repository: root, Path: root})
	}
	for _, r := range s.Found.Rules {
		if !r.Nested {
			continue
		}
		for _, root := range roots {
			f := rule.Folder{Repository: root, Path: r.Folder}
			if slices.Contains(rule.Nested(root, r.Folder), r.Folder) {
				if !slices.Contains(folders, f) {
					folders = append(folders, f)
				}
				break
			}
		}
	}
	return folders
}

// readRules reads rules in the machine. If that fails, the run continues: if the
// machine is lost, the next call reports it.
func (b *Book) readRules(ctx context.Context, m Machine, folders []rule.Folder) (rule.Set, error) {
	if len(folders) == 0 || m == nil {
		return rule.Set{}, nil
	}
	rules, err := m.Rules(ctx, folders)
	if err == nil {
		return rules, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return rule.Set{}, cause
	}
	if !errors.Is(err, remote.ErrLost) {
		b.Log.Warn("the repository's rules cannot be read", "error", err)
	}
	return rule.Set{LeftOut: []rule.LeftOut{{Source: folders[0].Path, Why: "the machine could not read the rules"}}}, nil
}

// Nested reads the rules of the folders that the last reply of a conversation
// is the first in this run to use. It returns nil if there are none.
func (b *Book) Nested(ctx context.Context, s *agent.State, m Machine) (*agent.RulesFound, error) {
	touched := touchedBy(s.Messages)
	var folders []rule.Folder
	for _, root := range repositories(s) {
		for _, file := range touched {
			for _, folder := range rule.Nested(root, file) {
				folders = append(folders, rule.Folder{Repository: root, Path: folder})
			}
		}
	}
	fresh := b.read.fresh(folders)
	found, err := b.readRules(ctx, m, fresh)
	if err != nil {
		return nil, err
	}
	found.Rules = slices.DeleteFunc(found.Rules, func(r rule.Rule) bool { // known from before a restart
		return slices.ContainsFunc(s.Found.Rules, func(o rule.Rule) bool { return sameRule(o, r) })
	})
	found.LeftOut = slices.DeleteFunc(found.LeftOut, func(l rule.LeftOut) bool { return slices.Contains(s.Found.LeftOut, l) })
	if len(found.Rules) == 0 && len(found.LeftOut) == 0 {
		return nil, nil
	}
	return &agent.RulesFound{Set: found, Nested: true}, nil
}

// Next returns a message with the rules that apply to a conversation's work and
// that the conversation lacks, or nil. prompt is the conversation's task.
// window is its model's context window in bytes, or 0 if unknown.
func Next(s *agent.State, prompt string, window int) *agent.RulesGiven {
	room := mostGiven
	if window > 0 {
		room = min(room, window/Share)
	}
	m, ok := rule.Next(s.Found, rule.Set{Rules: s.Applied, LeftOut: s.NotApplied}, rule.Work{Prompt: prompt, Touched: touchedBy(s.Messages)}, room)
	if !ok {
		return nil
	}
	m.Workspace = agent.Workspace
	if len(s.Agent.Repos) > 0 {
		m.PullRequest = s.Agent.Repos[0].PullRequest
	}
	return &agent.RulesGiven{Set: rule.Set{Rules: m.Rules, LeftOut: m.LeftOut}, Text: m.String()}
}

// readFolders are the folders whose rules were read in this run. Rules that
// change later in the run are not read again.
type readFolders struct {
	mu    sync.Mutex
	paths map[string]bool
}

// fresh returns the folders that were not read in this run, and remembers them.
func (f *readFolders) fresh(folders []rule.Folder) (fresh []rule.Folder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paths == nil {
		f.paths = map[string]bool{}
	}
	for _, folder := range folders {
		if !f.paths[folder.Path] && len(fresh) < maxAtOnce && len(f.paths) < maxReadInRun {
			f.paths[folder.Path] = true
			fresh = append(fresh, folder)
		}
	}
	return fresh
}

// repositories returns the roots of the agent's repositories, relative to the
// workspace.
func repositories(s *agent.State) (roots []string) {
	if len(s.Agent.Repos) == 0 {
		return nil
	}
	for _, folder := range agent.Folders(s.Agent.Repos) {
		roots = append(roots, InWorkspace(folder))
	}
	return roots
}

// InWorkspace returns a path relative to the workspace. It is "" for the
// workspace itself, and for paths outside it.
func InWorkspace(file string) string {
	if !path.IsAbs(file) {
		file = path.Join(agent.Workspace, file)
	}
	below, ok := strings.CutPrefix(path.Clean(file), agent.Workspace+"/")
	if !ok {
		return ""
	}
	return below
}

func sameRule(a, b rule.Rule) bool { return reflect.DeepEqual(a, b) }

// touchedBy returns the files and folders, relative to the workspace, that the
// calls of the last reply have used. Failed calls count too, because a model
// that looks for a file wants to work in its folder.
func touchedBy(messages []conversation.Message) (touched []string) {
	for _, m := range slices.Backward(messages) {
		if m.Role != conversation.Assistant {
			continue
		}
		for _, c := range m.Calls() {
			for _, file := range pathsOf(c) {
				if below := InWorkspace(file); below != "" && !slices.Contains(touched, below) && len(touched) < maxTouchedNow {
					touched = append(touched, below)
				}
			}
		}
		return touched
	}
	return nil
}

// pathsOf returns the paths that a call names.
func pathsOf(c conversation.ToolCall) (paths []string) {
	var args struct {
		Path     string   `json:"path"`
		Paths    []string `json:"paths"`
		Notebook string   `json:"target_notebook"`
		Folder   string   `json:"target_directory"`
		Dir      string   `json:"working_directory"`
	}
	switch c.Name {
	case "Read", "Write", "StrReplace", "Delete", "EditNotebook", "Grep", "Glob", "LS", "Shell", "ReadLints":
	default:
		return nil
	}
	_ = json.Unmarshal(c.Args, &args) // other arguments name no path
	for _, p := range append(args.Paths, args.Path, args.Notebook, args.Folder, args.Dir) {
		if p != "" {
			paths = append(paths, p)
		}
	}
	return paths
}
