// Package review decides how a tool call is treated before it is sent to a
// machine: by the run mode, by the rules of the team, the user and the project
// and, if these leave it open, by a classifier, which is a separate model call.
// It trusts nothing from the machine: rules come from the store, and the
// project's rules from its default branch at the agent's creation. So no agent
// can write permissions for itself or for another agent.
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

// Config holds the dependencies and settings of a Reviewer.
type Config struct {
	Rules store.Rules
	// Project returns a file of the agent's repository at a commit, or nil if it
	// does not exist. Project itself may be nil.
	Project func(ctx context.Context, a agent.Agent, commit, path string) ([]byte, error)
	// Model returns the classifier's model for an agent.
	Model func(ctx context.Context, a agent.Agent) (model.Model, model.Info, error)
	// ClassifyWithin is the timeout of the classifier; defaults to 30 s.
	ClassifyWithin time.Duration
	// Mode is the operator's run mode. "" leaves the choice to the team, the user
	// and the agent; the default is run-everything.
	Mode permit.Mode
	// Sandbox makes commands run in the sandbox in the allowlist mode too.
	Sandbox bool
	// Hosts says where the network rules of the sandbox come from.
	Hosts sandbox.NetworkMode
	// DenyAfter is the operator's timeout after which an unanswered approval
	// counts as denied; 0 leaves it to the team and the user.
	DenyAfter time.Duration
}

// Reviewer decides how calls are treated. It is safe for concurrent use.
type Reviewer struct {
	Config
	writing sync.Mutex // serializes changes of users' permissions.json
}

// New returns a reviewer with the configuration.
func New(c Config) *Reviewer { return &Reviewer{Config: c} }

// A Verdict is how a call is treated, with details for the person who reviews
// it.
type Verdict struct {
	permit.Decision
	Subject string   // the object of the call: the command line, the URL, server:tool, or the path
	Reason  string   // the agent's own reason
	Folder  string   // working directory of a shell command, if given
	Entries []string // entries that would allow the call
	Change  string   // content of a changed file, or text of a pull request
	TooLong bool     // whether the call is too long to show to a person
}

// File names of rules, in the store and in projects.
const (
	permissionsFile = "permissions.json"
	modeFile        = "run-mode"
	denyAfterFile   = "deny-after"
)

// projectFolders are the folders of a project's rules; the first that contains
// the file counts.
var projectFolders = []string{".aloft/", ".cursor/"}

// Check decides by rules. enforced means that the machine's sandbox can enforce
// its policy.
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
	if call.Kind == permit.Shell {
		setting.Permissions = withGrants(setting.Permissions, s, c.Name)
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

// Guards reports whether the machine must check the path of a file tool's call
// again, with symbolic links resolved. In the mode run-everything this is not
// needed.
func (r *Reviewer) Guards(ctx context.Context, a agent.Agent, c conversation.ToolCall) (bool, error) {
	switch c.Name {
	case "Write", "StrReplace", "EditNotebook", "Delete", "GenerateImage", "ApplyAgentDiff", fetchMCP:
		mode, err := r.ModeOf(ctx, a)
		return mode != permit.RunEverything, err
	}
	return false, nil
}

// GuardsLine returns the checks that the machine must do before it runs a shell
// command that an allow list allows outside of the sandbox. It is nil if
// commands do not run in a sandbox.
func (r *Reviewer) GuardsLine(ctx context.Context, s *agent.State, c conversation.ToolCall) (*conversation.Guard, error) {
	call := describe(c)
	if c.Name != "Shell" {
		return nil, nil //nolint:nilnil // nothing to check
	}
	mode, err := r.ModeOf(ctx, s.Agent)
	if err != nil || !sandboxes(mode, r.Sandbox) {
		return nil, err
	}
	policy, err := r.SandboxPolicy(ctx, s.Agent)
	if err == nil && policy.Type == sandbox.InsecureNone {
		return nil, nil //nolint:nilnil // nothing runs in the sandbox
	}
	if err != nil && !Unreadable(err) {
		return nil, err
	}
	guard := &conversation.Guard{Refuse: call.Unsandboxed}
	p, err := r.permissions(ctx, s.Agent)
	if err != nil && !Unreadable(err) {
		return nil, err
	}
	verdict := withGrants(p, s, c.Name).JudgeLine(call.Line)
	if at := verdict.Git; at != nil {
		guard.Git, guard.Folders, guard.Elsewhere = true, at.Folders, at.Elsewhere
	}
	if !verdict.Allowed { // the rules have changed since the decision about the call
		guard.Git, guard.Elsewhere = true, true
	}
	return guard, nil
}

// withGrants adds the shell commands that a person has allowed the agent.
func withGrants(p permit.Permissions, s *agent.State, tool string) permit.Permissions {
	for _, g := range s.Granted {
		if g.Tool == tool {
			p.TerminalAllowlist = append(slices.Clone(p.TerminalAllowlist), g.Entry)
		}
	}
	return p
}

// Until returns when an approval that is requested now expires as denied. It
// uses the shortest timeout set by operator, team or user, and returns the zero
// time if there is none. It ignores an unreadable setting, because waiting
// allows nothing.
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
// It does not handle shell commands, whose parts are checked one by one.
func granted(s *agent.State, tool string, c described) bool {
	if c.Kind == permit.Shell && !c.Unsandboxed {
		return false
	}
	return c.grant != "" && slices.Contains(s.Granted, agent.Grant{Tool: tool, Entry: c.grant})
}

// ModeOf returns the run mode of the agent. The team's mode applies to all
// agents, unless the user or the agent asks for a stricter mode.
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

// unreadableError means that a rules file is invalid.
type unreadableError struct{ error }

// Unreadable reports whether an error means that a rules file is invalid.
func Unreadable(err error) bool {
	_, ok := errors.AsType[unreadableError](err)
	return ok
}

// permissions returns the rules for the agent: the team's, or else the user's
// and the project's combined.
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

// project returns a rules file of the project at a commit, and a name for
// messages. Its allow lists count only for a commit on the default branch,
// because an agent may have pushed any other commit.
func (r *Reviewer) project(ctx context.Context, a agent.Agent, commit, name string) (words string, data []byte, err error) {
	if r.Project == nil || commit == "" || len(a.Repos) == 0 {
		return name, nil, nil
	}
	for _, folder := range projectFolders {
		words = fmt.Sprintf("%s%s of %.12s", folder, name, commit)
		data, err := r.Project(ctx, a, commit, folder+name)
		if err != nil && ctx.Err() == nil { // the deny rules are unknown, so a person must decide
			err = unreadableError{fmt.Errorf("read %s: %w", words, err)}
		}
		if err != nil || data != nil {
			return words, data, err
		}
	}
	return name, nil, nil
}

// projectPermissions returns the project's permissions.json at a commit.
func (r *Reviewer) projectPermissions(ctx context.Context, a agent.Agent, commit string) (permit.Permissions, error) {
	words, data, err := r.project(ctx, a, commit, permissionsFile)
	if err != nil {
		return permit.Permissions{}, err
	}
	return parse(words, data)
}
