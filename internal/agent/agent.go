// Package agent defines agents and their runs, the events of an agent's journal, and the
// state that results from folding the events. It does no I/O.
package agent

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"aloft/internal/allowance"
)

// Agent is the summary of an agent for lists. It is folded from the journal and stored
// separately, so that lists need not read journals.
type Agent struct {
	ID          string
	Name        string
	UserID      int64 // the owner
	Archived    bool
	Paused      bool // the agent does not start its next step until it is resumed
	Machine     MachineState
	CreatedAt   time.Time
	UpdatedAt   time.Time // time of the last event that is not [Event.Housekeeping]
	LatestRunID string
	Head        int64 // number of the last event
	Options
	Source
	Pending
	// Todos are the sequence numbers of the events that changed the agent's todo list,
	// oldest first: at most [MostTodos].
	Todos []int64
	// PullRequests are the pull requests of the agent's branches, in the order in which
	// they became known.
	PullRequests []PullRequest
}

// Options are the settings that a person has chosen for an agent.
type Options struct {
	Env                 Env
	Repos               []Repo
	Model               string // id in the configuration; "" is the default
	Class               string // isolation class: "" or "strong"
	WorkOnCurrentBranch bool
	RunMode             string           // run mode; "" is the server's default
	Limit               allowance.Amount // the owner's limits for each run; if zero, only the limits of the team and the server apply
	Pull                PullRequestOptions
}

// Source is the starting point of an agent's work.
type Source struct {
	ForkedFrom string // the agent that this one was forked from, or ""
	Layer      string // the saved disk for the first machine; "" once that machine has started
	// Origin is the commit of the first repository from which the agent started. The server
	// resolves it before there is a machine; "" before that.
	Origin string
	// RulesAt is the commit of the default branch when Origin was resolved. The project's
	// rules are read from that commit. "" if there was no such commit.
	RulesAt string
}

// Pending holds the items that wait for a person or for the end of the run.
type Pending struct {
	Approvals []Approval // open requests, oldest first
	Queue     []Waiting  // prompts for the next runs, in order
}

// DefaultModel is the name of the configuration's default model.
const DefaultModel = "default"

// MachineState is the state of an agent's machine, according to the journal.
type MachineState string

// States of an agent's machine.
const (
	MachineAbsent     MachineState = ""
	MachineBooting    MachineState = "booting"
	MachineUp         MachineState = "ready"
	MachineHibernates MachineState = "hibernated"
	MachineSuspended  MachineState = "suspended" // hibernated with its processes
	MachineGone       MachineState = "lost"      // stopped unexpectedly; its disk may still exist
)

// Env says where an agent's machine comes from.
type Env struct {
	Type   string `json:"type"` // "cloud"
	Name   string `json:"name,omitempty"`
	ID     string `json:"id,omitempty"` // id of the saved environment with that name; "" also for agents that predate this field
	Preset Preset `json:"preset,omitempty"`
	Image  string `json:"image,omitempty"` // replaces the image of the repository's environment, for set-up machines
}

// Preset is a special task for an agent.
type Preset string

// Presets. The zero value is an ordinary agent.
const (
	// SetUp is a machine that a person sets up. It asks no model and runs no
	// commands of the environment.
	SetUp Preset = "setup"
	// VMSetupHelper is an agent that works out how to set up a project's
	// machine, and proposes an environment.
	VMSetupHelper Preset = "vmSetupHelper"
	// Reviewer is an agent that reviews a change. It commits and pushes nothing, and
	// its machine gets no secrets.
	Reviewer Preset = "review"
)

// Egress is how an environment restricts a machine's network: egressMode and
// egressAllowlist of environment.json. The zero value adds no restriction.
type Egress struct {
	Mode  string   `json:"mode,omitempty"`
	Allow []string `json:"allow,omitempty"`
	// Within is the team's restriction when the agent was created; nil if the team
	// had none. A host must be allowed by both restrictions.
	Within *Egress `json:"within,omitempty"`
}

// Repo is a repository that an agent works on.
type Repo struct {
	URL         string `json:"url"`
	StartingRef string `json:"startingRef,omitempty"`
	// TeamBase says that StartingRef is the team's base branch. If the
	// repository lacks that branch, the work starts at the default branch. See
	// [BaseMissing].
	TeamBase    bool   `json:"teamBase,omitempty"`
	PullRequest string `json:"prUrl,omitempty"` // the pull request on whose branch the agent starts, or ""
}

// Checkout is the state of one repository when the agent's machine started.
type Checkout struct {
	BaseCommit string `json:"baseCommit,omitempty"` // where the branch starts
	Branch     string `json:"branch,omitempty"`     // the branch to push
	Pushed     bool   `json:"-"`                    // the branch has been pushed
}

// NewID returns a fresh agent id, bc-<uuid>.
func NewID() string { return "bc-" + uuid.NewString() }

// NewRunID returns a fresh run id, run-<uuid>.
func NewRunID() string { return "run-" + uuid.NewString() }

var idPattern = regexp.MustCompile(`^bc-[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

// ValidID reports whether id has the form of an agent id that a client may use.
func ValidID(id string) bool { return idPattern.MatchString(id) }

// maxNameWords and maxNameLen limit a name that is derived from a prompt, so
// that it fits in a list and in a branch name.
const (
	maxNameWords = 6
	maxNameLen   = 48
)

// NameFrom derives a name from the first words of a prompt.
func NameFrom(prompt string) string {
	words := strings.FieldsFunc(prompt, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	name := strings.Join(words[:min(len(words), maxNameWords)], " ")
	if r := []rune(name); len(r) > maxNameLen {
		name = strings.TrimSpace(string(r[:maxNameLen]))
	}
	if name == "" {
		return "Untitled"
	}
	return name
}

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// NewBranch returns a branch name for a prompt: aloft/<words-of-the-prompt>-<4
// hex>.
func NewBranch(prompt string) string {
	slug := strings.Trim(notSlug.ReplaceAllString(strings.ToLower(NameFrom(prompt)), "-"), "-")
	if slug == "" {
		slug = "task"
	}
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return "aloft/" + slug + "-" + hex.EncodeToString(b[:])
}

// PrivateBranch returns the branch name for an agent in privacy mode, derived
// from its id alone: aloft/<first 8 hex digits of the id>.
func PrivateBranch(agentID string) string {
	id := strings.TrimPrefix(agentID, "bc-")
	return "aloft/" + id[:min(len(id), 8)]
}

// Apply folds one event into the summary.
func (a *Agent) Apply(e Event) {
	a.Head = e.Seq
	if !e.Housekeeping() {
		a.UpdatedAt = e.Time
	}
	a.approve(e)
	a.queue(e)
	a.todo(e)
	a.pull(e)
	switch b := e.Body.(type) {
	case *Created:
		a.Name, a.UserID, a.Env, a.Repos = b.Name, b.UserID, b.Env, b.Repos
		a.Model, a.Class, a.WorkOnCurrentBranch, a.RunMode = b.Model, b.Class, b.WorkOnCurrentBranch, b.RunMode
		a.CreatedAt, a.Pull = e.Time, b.Pull
	case *Titled:
		if b.Replaces == "" || b.Replaces == a.Name {
			a.Name = b.Title
		}
	case *Forked:
		a.ForkedFrom, a.Layer, a.RulesAt = b.AgentID, b.Layer, b.RulesAt
	case *RunCreated:
		a.LatestRunID = e.RunID
		switch b.Model {
		case "":
		case DefaultModel:
			a.Model = ""
		default:
			a.Model = b.Model
		}
		if b.Limit != nil {
			a.Limit = *b.Limit
		}
	case *BaseMissing:
		a.startAt(b.RepoURL, "")
	case *Archived:
		a.Archived = b.Archived
	case *MachineMade:
		a.Machine = MachineBooting
		if a.Origin == "" {
			a.Origin = b.Origin
		}
		if a.RulesAt == "" {
			a.RulesAt = b.RulesAt
		}
	case *MachineReady:
		a.Machine, a.Layer = MachineUp, ""
	case *MachineWoken:
		a.Machine = MachineUp
	case *MachineHibernated:
		a.Machine = MachineHibernates
		if b.Alive {
			a.Machine = MachineSuspended
		}
	case *MachineLost:
		a.Machine = MachineGone
	case *MachineExpired:
		a.Machine = MachineAbsent
	case *Paused:
		a.Paused = true
	case *Resumed:
		a.Paused = false
	}
}
