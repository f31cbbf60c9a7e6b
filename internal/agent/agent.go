// Package agent is an agent's life: what it is, its runs, the events of its
// journal, and the state that those events fold to. It does no I/O.
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

// Agent is what a list shows of an agent: a fold of its journal, kept beside it.
type Agent struct {
	ID                  string
	Name                string
	UserID              int64 // who made it
	Archived            bool
	Paused              bool             // works no further until it is resumed
	Limit               allowance.Amount // what its person lets each run use; zero leaves it to the team and the server
	RunMode             string           // how much it may do without asking; "" is the server's own
	Approvals           []Approval       // that wait for a person, the oldest first
	Machine             MachineState
	Env                 Env
	Repos               []Repo
	Model               string // an id of the configuration; "" is its default
	Class               string // of isolation: "" or "strong"
	WorkOnCurrentBranch bool
	CreatedAt           time.Time
	UpdatedAt           time.Time // of the last event but for those of [Event.Housekeeping]
	LatestRunID         string
	ForkedFrom          string // the agent from which this one began, if it did
	Layer               string // the saved disk that the first machine is to begin with; "" once it has
	Head                int64  // the number of the last event
	// Queue are the prompts that wait for the run to end, the first to begin first.
	Queue []Waiting
	// Todos are the numbers of the events that hold the agent's own list of what is
	// to be done as it was left, the newest last: at most [MostTodos].
	Todos []int64
	Pull  PullRequestOptions
	// PullRequests are those of its branches, the first known first.
	PullRequests []PullRequest
	// Origin is the commit of the first repository that the agent began with, as
	// the server found it before there was a machine; "" before that.
	Origin string
	// RulesAt is the commit of its default branch at that time: the project's rules
	// count as they are there. "" where there was none.
	RulesAt string
}

// DefaultModel names the model that the configuration has for who names none.
const DefaultModel = "default"

// MachineState is how an agent's machine is, as far as the journal knows.
type MachineState string

// Machine states.
const (
	MachineAbsent     MachineState = ""
	MachineBooting    MachineState = "booting"
	MachineUp         MachineState = "ready"
	MachineHibernates MachineState = "hibernated"
	MachineSuspended  MachineState = "suspended" // hibernated with its processes
	MachineGone       MachineState = "lost"      // it has stopped; its disk may be there
)

// Env is where an agent's machine comes from.
type Env struct {
	Type   string `json:"type"` // "cloud"
	Name   string `json:"name,omitempty"`
	ID     string `json:"id,omitempty"` // of the saved environment of that name; "" also of agents older than this field
	Preset Preset `json:"preset,omitempty"`
	Image  string `json:"image,omitempty"` // in place of what the repository's environment says; for a person's set-up
}

// Preset is a special task that an agent is made for.
type Preset string

// Presets. The zero value is an agent like any other.
const (
	// SetUp is a machine for a person to set up: no model is asked, and nothing
	// that the environment runs is run.
	SetUp Preset = "setup"
	// VMSetupHelper finds out how a project's machine is to be set up, and
	// proposes an environment.
	VMSetupHelper Preset = "vmSetupHelper"
)

// Egress is how an environment narrows a machine's network: egressMode and
// egressAllowlist of environment.json. The zero value leaves it as it is.
type Egress struct {
	Mode  string   `json:"mode,omitempty"`
	Allow []string `json:"allow,omitempty"`
	// Within is what the team had settled when the agent was made: nothing is
	// reached that it does not let in, too. nil is nothing.
	Within *Egress `json:"within,omitempty"`
}

// Repo is a repository that an agent works on.
type Repo struct {
	URL         string `json:"url"`
	StartingRef string `json:"startingRef,omitempty"`
	// TeamBase says that StartingRef is the team's base branch: where the repository
	// has no such branch, the work starts at its default branch. See [BaseMissing].
	TeamBase    bool   `json:"teamBase,omitempty"`
	PullRequest string `json:"prUrl,omitempty"` // on which the agent was started; it begins with its branch
}

// Checkout is what an agent's machine began with of one repository.
type Checkout struct {
	BaseCommit string `json:"baseCommit,omitempty"` // where the branch began
	Branch     string `json:"branch,omitempty"`     // to push
	Pushed     bool   `json:"-"`                    // at some time
}

// NewID returns a fresh agent id, bc-<uuid>.
func NewID() string { return "bc-" + uuid.NewString() }

// NewRunID returns a fresh run id, run-<uuid>.
func NewRunID() string { return "run-" + uuid.NewString() }

var idPattern = regexp.MustCompile(`^bc-[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

// ValidID reports whether a client may name an agent so.
func ValidID(id string) bool { return idPattern.MatchString(id) }

// maxNameWords and maxNameLen keep a name that is made from a prompt short
// enough for a list and for a branch.
const (
	maxNameWords = 6
	maxNameLen   = 48
)

// NameFrom makes a name of a prompt's first words.
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

// NewBranch names a branch for a prompt: aloft/<words-of-the-prompt>-<4 hex>.
func NewBranch(prompt string) string {
	slug := strings.Trim(notSlug.ReplaceAllString(strings.ToLower(NameFrom(prompt)), "-"), "-")
	if slug == "" {
		slug = "task"
	}
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return "aloft/" + slug + "-" + hex.EncodeToString(b[:])
}

// PrivateBranch names a branch for an agent in privacy mode, by the agent's id
// alone: aloft/<first 8 hex of the id>.
func PrivateBranch(agentID string) string {
	id := strings.TrimPrefix(agentID, "bc-")
	return "aloft/" + id[:min(len(id), 8)]
}

// Apply folds one event into what a list shows.
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
