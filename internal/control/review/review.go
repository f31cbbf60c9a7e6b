// Package review decides how a tool call is treated before it is sent to a
// machine: by the run mode, the rules of the team, the person and the project,
// and, where those leave it open, by a classifier, a model call of its own. It
// trusts nothing that comes from the machine: rules are the store's, and the
// project's as its default branch had them when the agent began, so that no
// agent can write permissions for itself or for another.
package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/policy/permit"
	"aloft/internal/policy/sandbox"
)

// Config is what a Reviewer works with.
type Config struct {
	Rules store.Rules
	// Project returns a file of the agent's repository at a commit, nil where there
	// is none. It may be nil.
	Project func(ctx context.Context, a agent.Agent, commit, path string) ([]byte, error)
	// Model returns the classifier's model for an agent.
	Model func(a agent.Agent) (model.Model, model.Info, error)
	// ClassifyWithin is how long the classifier may take; 30 s unless given.
	ClassifyWithin time.Duration
	// Mode is the operator's; "" leaves it to the team, the person and the agent,
	// and is run-everything where none of them says.
	Mode permit.Mode
	// Sandbox has commands run in the sandbox under the allowlist mode too.
	Sandbox bool
	// Hosts says where the rules of the sandbox's network come from.
	Hosts sandbox.NetworkMode
	// DenyAfter is the operator's word on when a question that nobody has answered
	// counts as denied; 0 leaves it to the team and the person.
	DenyAfter time.Duration
}

// Reviewer decides how calls are treated. It is safe for concurrent use.
type Reviewer struct {
	Config
	writing sync.Mutex // a person's permissions.json is read and written by one at a time
}

// New returns a reviewer.
func New(c Config) *Reviewer { return &Reviewer{Config: c} }

// A Verdict is how a call is treated, and what a person is to know of it.
type Verdict struct {
	permit.Decision
	Subject string   // what the call does: the line, the URL, server:tool, the path
	Reason  string   // the agent's own words for why
	Folder  string   // of a shell line: where it runs, if it says so
	Entries []string // that would allow it
	Change  string   // of a change to a file: what would stand there; of a pull request: its words
	TooLong bool     // a person cannot be shown all of it
}

// The files of rules, as the store and projects name them.
const (
	permissionsFile = "permissions.json"
	modeFile        = "run-mode"
	denyAfterFile   = "deny-after"
)

// projectFolders hold a project's rules; the first that has a file counts.
var projectFolders = []string{".aloft/", ".cursor/"}

// Check decides by rule. enforced says that the machine's sandbox can hold its
// policy.
func (r *Reviewer) Check(ctx context.Context, s *agent.State, c conversation.ToolCall, enforced bool) (Verdict, error) {
	call := describe(c)
	v := Verdict{Subject: call.subject, Reason: call.reason, Folder: call.folder, Change: call.change, TooLong: !call.reviewable()}
	if call.Kind == permit.Other {
		v.Decision = permit.Check(call.Call, permit.Setting{})
		return v, nil
	}
	mode, err := r.ModeOf(ctx, s.Agent)
	if err != nil {
		return v, err
	}
	unreadable := ""
	setting := permit.Setting{Mode: mode, Sandbox: r.Sandbox, Enforced: enforced}
	if mode != permit.RunEverything {
		if setting.Permissions, err = r.permissions(ctx, s.Agent); err != nil {
			if u, ok := errors.AsType[unreadableError](err); ok {
				setting.Unreadable, unreadable = true, ": "+u.Error()
			} else {
				return v, err
			}
		}
	}
	call.Allowed = granted(s, c.Name, call)
	for _, g := range s.Granted {
		if g.Tool == c.Name && call.Kind == permit.Shell {
			setting.Permissions.TerminalAllowlist = append(slices.Clone(setting.Permissions.TerminalAllowlist), g.Entry)
		}
	}
	v.Decision = permit.Check(call.Call, setting)
	if v.Treatment == permit.Sandboxed {
		if v.Decision, err = r.sandboxed(ctx, s.Agent, call.Call, setting, v.Decision); err != nil {
			return v, err
		}
	}
	if v.Treatment == permit.Ask {
		v.Why += unreadable
	}
	if v.Treatment != permit.Run {
		v.Entries = call.entries(setting.Permissions)
	}
	return v, nil
}

// Guards reports whether the machine is to judge the path of a file tool's call
// again, where its symbolic links lead. It is not where everything runs.
func (r *Reviewer) Guards(ctx context.Context, a agent.Agent, c conversation.ToolCall) (bool, error) {
	switch c.Name {
	case "Write", "StrReplace", "EditNotebook", "Delete", fetchMCP:
		mode, err := r.ModeOf(ctx, a)
		return mode != permit.RunEverything, err
	}
	return false, nil
}

// Until is when a question of the agent's that is asked now counts as denied:
// after the shortest time that anybody has set, zero where nobody has. One that
// cannot be read counts for nothing, since waiting allows nothing.
func (r *Reviewer) Until(ctx context.Context, a agent.Agent) (time.Time, error) {
	after := r.DenyAfter
	for _, owner := range []string{store.TeamRules, store.RulesOf(a.UserID)} {
		text, err := r.Rules.Rule(ctx, owner, denyAfterFile)
		if err != nil {
			return time.Time{}, err
		}
		if d, err := permit.ParseDenyAfter(text); err == nil && (after == 0 || d < after) {
			after = d
		}
	}
	if after == 0 {
		return time.Time{}, nil
	}
	return time.Now().UTC().Add(after), nil
}

// granted reports whether a person has allowed the agent calls like this one.
// A shell line is judged by its commands instead.
func granted(s *agent.State, tool string, c described) bool {
	if c.Kind == permit.Shell && !c.Unsandboxed {
		return false
	}
	return c.grant != "" && slices.Contains(s.Granted, agent.Grant{Tool: tool, Entry: c.grant})
}

// ModeOf is the run mode that holds for the agent. The team's holds for all,
// unless the agent or its person asks for less.
func (r *Reviewer) ModeOf(ctx context.Context, a agent.Agent) (permit.Mode, error) {
	of := func(owner string) (permit.Mode, error) {
		text, err := r.Rules.Rule(ctx, owner, modeFile)
		if err != nil || text == "" {
			return "", err
		}
		return permit.ParseMode(text)
	}
	team, err := of(store.TeamRules)
	if err != nil {
		return "", err
	}
	own := permit.Mode(a.RunMode)
	if own == "" {
		if own, err = of(store.RulesOf(a.UserID)); err != nil {
			return "", err
		}
	}
	mode := permit.Strictest(r.Mode, team, own)
	if mode == "" {
		mode = permit.RunEverything
	}
	return mode, nil
}

// unreadableError is what is wrong with a file of rules.
type unreadableError struct{ error }

// Unreadable reports whether an error says that a file of rules cannot be read.
func Unreadable(err error) bool {
	_, ok := errors.AsType[unreadableError](err)
	return ok
}

// permissions are what holds for the agent: the team's, or the person's and the
// project's together.
func (r *Reviewer) permissions(ctx context.Context, a agent.Agent) (permit.Permissions, error) {
	team, err := r.Rules.Rule(ctx, store.TeamRules, permissionsFile)
	if err != nil {
		return permit.Permissions{}, err
	}
	if team != "" {
		return parse("the team's "+permissionsFile, []byte(team))
	}
	own, err := r.Rules.Rule(ctx, store.RulesOf(a.UserID), permissionsFile)
	if err != nil {
		return permit.Permissions{}, err
	}
	mine, err := parse("your "+permissionsFile, []byte(own))
	if err != nil {
		return permit.Permissions{}, err
	}
	projects, err := r.projectPermissions(ctx, a, a.RulesAt)
	if err != nil {
		return permit.Permissions{}, err
	}
	began := permit.Permissions{}
	if a.Origin != a.RulesAt {
		if began, err = r.projectPermissions(ctx, a, a.Origin); err != nil {
			return permit.Permissions{}, err
		}
	}
	return permit.Merge(mine, projects, began.Restrictions()), nil
}

func parse(name string, data []byte) (permit.Permissions, error) {
	p, err := permit.Parse(name, data)
	if err != nil {
		return permit.Permissions{}, unreadableError{err}
	}
	return p, nil
}

// project returns a file of the project's rules at a commit, and what to call
// it. What it allows is to be heeded only where people have vouched for the
// commit: any other may have been pushed by an agent.
func (r *Reviewer) project(ctx context.Context, a agent.Agent, commit, name string) (words string, data []byte, err error) {
	if r.Project == nil || commit == "" || len(a.Repos) == 0 {
		return name, nil, nil
	}
	for _, folder := range projectFolders {
		words = fmt.Sprintf("%s%s of %.12s", folder, name, commit)
		data, err := r.Project(ctx, a, commit, folder+name)
		if err != nil && ctx.Err() == nil { // whatever it would have blocked, a person decides
			err = unreadableError{fmt.Errorf("read %s: %w", words, err)}
		}
		if err != nil || data != nil {
			return words, data, err
		}
	}
	return name, nil, nil
}

// projectPermissions is what the project's permissions.json says at a commit.
func (r *Reviewer) projectPermissions(ctx context.Context, a agent.Agent, commit string) (permit.Permissions, error) {
	words, data, err := r.project(ctx, a, commit, permissionsFile)
	if err != nil {
		return permit.Permissions{}, err
	}
	return parse(words, data)
}
