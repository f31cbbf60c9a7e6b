package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/rule"
	"aloft/internal/subagent"
)

// Limits of reading rules and of giving them to the model.
const (
	mostGiven     = 80 << 10 // bytes that one conversation is given; less if its context window is small
	maxAtOnce     = 30       // folders that are read at once
	maxReadInRun  = 2000     // folders that are read in a run
	maxTouchedNow = 100      // files of one reply that are looked at
)

// readFolders are the folders whose rules were read in this run. Rules that
// change later in the run are not read again.
type readFolders struct {
	mu   sync.Mutex
	done map[string]bool
}

// fresh returns those folders that were not read in this run, and remembers
// them.
func (f *readFolders) fresh(folders []rule.Folder) (fresh []rule.Folder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done == nil {
		f.done = map[string]bool{}
	}
	for _, folder := range folders {
		if !f.done[folder.Path] && len(fresh) < maxAtOnce && len(f.done) < maxReadInRun {
			f.done[folder.Path] = true
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
		roots = append(roots, inWorkspace(folder))
	}
	return roots
}

// inWorkspace returns a path relative to the workspace. It is "" for the
// workspace itself, and for paths outside it.
func inWorkspace(file string) string {
	if !path.IsAbs(file) {
		file = path.Join(agent.Workspace, file)
	}
	below, ok := strings.CutPrefix(path.Clean(file), agent.Workspace+"/")
	if !ok {
		return ""
	}
	return below
}

// findRules reads the rules at the beginning of a run: those of the team, of
// the owner, of the repositories' roots, and of the folders in which an earlier
// run has found some.
func (l *Loop) findRules(ctx context.Context) error {
	s := l.rec.Snapshot()
	if s.Run.Turns > 0 {
		return nil
	}
	var found agent.RulesFound
	if l.Rules != nil {
		var err error
		if found.Rules, err = l.Rules(ctx, s.Agent); err != nil {
			return err
		}
		found.Rules = withoutFiles(found.Rules)
	}
	roots := repositories(s)
	var folders []rule.Folder
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
	theirs, err := l.readRules(ctx, l.own.machine, l.read.fresh(folders))
	if err != nil {
		return err
	}
	found.Rules, found.LeftOut = append(found.Rules, theirs.Rules...), theirs.LeftOut
	if slices.EqualFunc(found.Rules, s.Found.Rules, sameRule) && slices.Equal(found.LeftOut, s.Found.LeftOut) {
		return nil
	}
	return l.rec.Record(ctx, &found)
}

func sameRule(a, b rule.Rule) bool { return reflect.DeepEqual(a, b) }

// readRules reads rules in the machine. A machine that cannot read them does
// not stop the run; a lost one is noticed by the next call.
func (l *Loop) readRules(ctx context.Context, m remote.Machine, folders []rule.Folder) (rule.Set, error) {
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
		l.Logger.Warn("the repository's rules cannot be read", "error", err)
	}
	return rule.Set{LeftOut: []rule.LeftOut{{Source: folders[0].Path, Why: "the machine could not read the rules"}}}, nil
}

// giveRules gives the model the rules that apply to its work and that it does
// not have: at the start, and when its tools have used a file to which others
// apply.
func (t *thread) giveRules(ctx context.Context) error {
	s := t.state()
	prompt := ""
	if len(s.Asked) > 0 {
		prompt = s.Asked[len(s.Asked)-1]
	}
	if t.task != "" {
		sub := s.Subagent(t.task)
		if prompt = sub.Prompt; sub.Type == subagent.ComputerUse {
			return nil // it sees only the desktop
		}
	}
	touched := touchedBy(s.Messages)
	if err := t.findNested(ctx, s, touched); err != nil {
		return err
	}
	s = t.state()
	room := mostGiven
	if t.info.ContextWindow > 0 {
		room = min(room, t.info.ContextWindow/ruleShare*charsPerToken)
	}
	m, ok := rule.Next(s.Found, rule.Set{Rules: s.Applied, LeftOut: s.NotApplied}, rule.Work{Prompt: prompt, Touched: touched}, room)
	if !ok {
		return nil
	}
	m.Workspace = agent.Workspace
	if len(s.Agent.Repos) > 0 {
		m.PullRequest = s.Agent.Repos[0].PullRequest
	}
	return t.record(ctx, &agent.RulesGiven{Set: rule.Set{Rules: m.Rules, LeftOut: m.LeftOut}, Text: m.String()})
}

// findNested reads the rules of the folders that the conversation uses for the
// first time in this run.
func (t *thread) findNested(ctx context.Context, s *agent.State, touched []string) error {
	var folders []rule.Folder
	for _, root := range repositories(s) {
		for _, file := range touched {
			for _, folder := range rule.Nested(root, file) {
				folders = append(folders, rule.Folder{Repository: root, Path: folder})
			}
		}
	}
	fresh := t.read.fresh(folders)
	found, err := t.readRules(ctx, t.machine, fresh)
	if err != nil {
		return err
	}
	found.Rules = slices.DeleteFunc(found.Rules, func(r rule.Rule) bool { // known from before a restart
		return slices.ContainsFunc(s.Found.Rules, func(o rule.Rule) bool { return sameRule(o, r) })
	})
	found.LeftOut = slices.DeleteFunc(found.LeftOut, func(l rule.LeftOut) bool { return slices.Contains(s.Found.LeftOut, l) })
	if len(found.Rules) == 0 && len(found.LeftOut) == 0 {
		return nil
	}
	return t.rec.Record(ctx, &agent.RulesFound{Set: found, Nested: true})
}

// touchedBy returns the files and folders, relative to the workspace, that the
// calls of the last reply have used. Calls that failed count too: a model that
// looks for a file wants to work there.
func touchedBy(messages []conversation.Message) (touched []string) {
	for _, m := range slices.Backward(messages) {
		if m.Role != conversation.Assistant {
			continue
		}
		for _, c := range m.Calls() {
			for _, file := range pathsOf(c) {
				if below := inWorkspace(file); below != "" && !slices.Contains(touched, below) && len(touched) < maxTouchedNow {
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
	_ = json.Unmarshal(c.Args, &args) // arguments that do not fit name no path
	for _, p := range append(args.Paths, args.Path, args.Notebook, args.Folder, args.Dir) {
		if p != "" {
			paths = append(paths, p)
		}
	}
	return paths
}

// keptRules returns what a compaction keeps of the rules in at most room bytes,
// not counting the marks around them: those that the model was given, and the
// list of those that it may read. more are the instructions that it has read
// itself and was not given.
func keptRules(s *agent.State, room int) (given string, more []agent.Rule) {
	rules := slices.Clone(s.Applied)
	rule.Order(rules)
	fit, left := rule.Fit(rules, room)
	var b strings.Builder
	for _, r := range fit {
		if r.Text != "" {
			b.WriteString(r.Quote(agent.Workspace))
		}
	}
	b.WriteString(rule.Offer(agent.Workspace, fit))
	for _, l := range left {
		fmt.Fprintf(&b, "[%s omitted: %s]\n", l.Source, l.Why)
	}
	for _, r := range s.Rules {
		if !slices.ContainsFunc(fit, func(f rule.Rule) bool {
			return f.Text != "" && f.From == rule.Repository && f.Source == inWorkspace(r.Source)
		}) {
			more = append(more, r)
		}
	}
	return b.String(), more
}
