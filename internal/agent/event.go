package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"

	"aloft/internal/allowance"
	"aloft/internal/conversation"
	"aloft/internal/subagent"
)

// Event is one entry of an agent's journal.
type Event struct {
	Seq   int64 // counts from 1 per agent, without gaps; 0 until journaled
	RunID string
	Time  time.Time
	Body  Body
}

// Body is the content of an event: a pointer to one of this package's event
// types.
type Body interface{ Kind() string }

// Housekeeping reports whether the server caused the event without anyone using the
// agent. Such events do not count as use of the agent.
func (e Event) Housekeeping() bool {
	_, is := e.Body.(interface{ housekeeping() })
	return is
}

// kinds maps the kinds of events to their types.
var kinds = map[string]reflect.Type{}

// register makes event types known to [Decode] and [Kinds]. The file that declares an event registers it, with a pointer to an
// empty event. That is all that an event needs. It may have more methods:
//
//   - housekeeping() says that the event does not count as use of the agent,
//   - fold(*State, Event) changes the state of the agent.
func register(events ...Body) []Body { //nolint:unparam // the result lets a variable call it
	for _, b := range events {
		if _, twice := kinds[b.Kind()]; twice {
			panic("agent: event " + b.Kind() + " is registered twice")
		}
		kinds[b.Kind()] = reflect.TypeOf(b).Elem()
	}
	return events
}

// Kinds returns the type of each kind of event.
func Kinds() map[string]reflect.Type { return maps.Clone(kinds) }

func (*MachineHibernated) housekeeping() {}
func (*MachineExpiring) housekeeping()   {}
func (*MachineExpired) housekeeping()    {}

type (
	// Created is the first event of every agent.
	Created struct {
		Name                string             `json:"name"`
		UserID              int64              `json:"userId"`
		Env                 Env                `json:"env"`
		Repos               []Repo             `json:"repos,omitempty"`
		Model               string             `json:"model,omitempty"`
		Class               string             `json:"class,omitempty"`
		WorkOnCurrentBranch bool               `json:"workOnCurrentBranch,omitempty"`
		RunMode             string             `json:"runMode,omitempty"` // a mode of package permit; "" is the server's default
		Branch              string             `json:"branch,omitempty"`  // to create; "" to stay on the starting ref
		Pull                PullRequestOptions `json:"pull,omitzero"`
		// Subagents are the custom subagents from the request that created the
		// agent.
		Subagents []subagent.Definition `json:"subagents,omitempty"`
		// WebhookEvents are the events that the webhook receives; empty means all.
		WebhookEvents []string `json:"webhookEvents,omitempty"`
		// EnvironmentText is the environment.json of the saved environment Env.ID when the
		// agent was created. It is used if that environment has been deleted. "" if Env.ID is
		// "", and in journals that predate this field.
		EnvironmentText string `json:"environmentText,omitempty"`
		// Review is the change that an agent with the preset [Reviewer] reviews.
		Review *ReviewTask `json:"review,omitempty"`
	}
	// Archived records that the agent was archived or unarchived.
	Archived struct {
		Archived bool `json:"archived"`
	}
	// RunCreated is the first event of every run. Its prompt is empty if the
	// model only has to reply again, after [Rewound].
	RunCreated struct {
		Prompt conversation.Message `json:"prompt"`
		// By is [ByPullRequest], [ByMention] or [ByEvent] if the prompt may quote other
		// people, and "" otherwise.
		By    string `json:"by,omitempty"`
		Trace string `json:"trace,omitempty"` // the request's traceparent
		// MCP says that the prompt came with MCP servers, which replace the
		// previous ones. They are stored encrypted under the run's id.
		MCP  bool   `json:"mcp,omitempty"`
		Mode string `json:"mode,omitempty"` // mode from now on; "" means unchanged
		// Model is the agent's model for this run and later ones. "default" is
		// the default model; "" means unchanged.
		Model string `json:"model,omitempty"`
		// Limit is the owner's limit for this run and later ones; nil means
		// unchanged.
		Limit *allowance.Amount `json:"limit,omitempty"`
		// Checks are the check commands of this run and later ones; nil means unchanged.
		Checks *[]string `json:"checks,omitempty"`
		// Goal is the goal of this run and later ones, in plain language. nil means unchanged;
		// "" means none.
		Goal *string `json:"goal,omitempty"`
	}
	// RunStarted records that a server has started to work on the run.
	RunStarted struct {
		// Limit is the limit at which the run ends: the strictest of the limits of its owner,
		// the team and the server.
		Limit  allowance.Amount `json:"limit,omitzero"`
		Paused bool             `json:"paused,omitempty"` // whether the agent was already paused
		// Privacy is whether the team's privacy mode applied when the run was
		// requested; it applies until the run ends. It is nil in journals older
		// than this field.
		Privacy *bool `json:"privacy,omitempty"`
	}
	// BootStep is a named step of starting the machine.
	BootStep struct {
		Name       string `json:"name"`
		State      string `json:"state"` // running, done or failed
		DurationMS int64  `json:"durationMs,omitempty"`
		Detail     string `json:"detail,omitempty"`
	}
	// MachineMade records the agent's new machine, before it boots.
	MachineMade struct {
		MachineID string `json:"machineId"`
		Layer     string `json:"layer,omitempty"`   // the snapshot from which the machine's disk starts
		Install   bool   `json:"install,omitempty"` // the install command must run in the machine, since no build has run it
		// Origin is the commit that the agent starts from, as the server
		// resolved it before the first machine existed.
		Origin string `json:"origin,omitempty"`
		// RulesAt is the commit of the default branch when Origin was resolved.
		RulesAt string `json:"rulesAt,omitempty"`
		// Egress is the environment's network restriction.
		Egress Egress `json:"egress,omitzero"`
		// Checks are the commands of the environment's checks.
		Checks []string `json:"checks,omitempty"`
		// Untested says that the environment asks the agent to run no tests.
		Untested bool `json:"untested,omitempty"`
	}
	// MachineReady records that the machine is up.
	MachineReady struct {
		MachineID  string `json:"machineId"`
		BootID     string `json:"bootId"` // identifies this boot of the machine
		BaseCommit string `json:"baseCommit,omitempty"`
		Branch     string `json:"branch,omitempty"`
		User       string `json:"user,omitempty"` // user of the agent's processes; "" in older journals
		// Others are the agent's repositories except the first, in order.
		Others []Checkout `json:"others,omitempty"`
		// Facilities describes the machine; nil in older journals.
		Facilities *Facilities `json:"facilities,omitempty"`
	}
	// BaseMissing records that a repository lacks the team's base branch, so
	// that the work starts at its default branch.
	BaseMissing struct {
		RepoURL string `json:"repoUrl"`
		Branch  string `json:"branch"` // the team's base branch
	}
	// VariablesGiven records the names of the variables that were set in the
	// machine. It contains no values.
	VariablesGiven struct {
		Names []string `json:"names"`
	}
	// MachineLost records that the machine stopped unexpectedly.
	MachineLost struct {
		MachineID string `json:"machineId"`
		Reason    string `json:"reason"`
	}
	// MachineHibernated records that an unused machine was put to sleep. It
	// keeps its disk, and its processes if the runtime supports that.
	MachineHibernated struct {
		MachineID string `json:"machineId"`
		Alive     bool   `json:"alive,omitempty"`  // the machine's processes were saved too
		Code      string `json:"code,omitempty"`   // why the processes were not saved: disk_only, no_memory, no_room or failed
		Reason    string `json:"reason,omitempty"` // Code as text
	}
	// MachineWoken records that a sleeping or stopped machine was needed and
	// started again.
	MachineWoken struct {
		MachineID string `json:"machineId"`
		BootID    string `json:"bootId"`
		Alive     bool   `json:"alive,omitempty"` // the machine's processes continue
		// Started says that the environment's start command and terminals were
		// started in this boot.
		Started bool `json:"started,omitempty"`
	}
	// MachineSaved records that the machine's disk was saved, so that other machines can
	// start from it.
	MachineSaved struct {
		MachineID  string `json:"machineId"`
		SnapshotID string `json:"snapshotId"`
	}
	// MachineExpiring warns that the machine and its disk will be removed unless the
	// machine is used.
	MachineExpiring struct {
		MachineID string    `json:"machineId"`
		At        time.Time `json:"at"`
	}
	// MachineExpired records that the machine and its disk were removed because the machine
	// was unused for too long. Pushed work remains.
	MachineExpired struct {
		MachineID string `json:"machineId"`
	}
	// ScriptKept records that the agent has set the install script for later
	// machines of its repository.
	ScriptKept struct {
		EnvironmentID string `json:"environmentId"`
		VersionID     string `json:"versionId"`
		Script        string `json:"script"`
	}
	// Notice is a message that the model receives with its next turn.
	Notice struct {
		Text string `json:"text"`
		Code string `json:"code,omitempty"` // code of the fault that the model has to fix, or a code below
	}
	// TextDelta is a piece of a reply, in the order in which clients see it.
	TextDelta struct {
		Text string `json:"text"`
	}
	// ThinkingDelta is a piece of the model's reasoning.
	ThinkingDelta struct {
		Text string `json:"text"`
	}
	// ModelRetry records that a model request failed and will be retried.
	ModelRetry struct {
		Reason  string `json:"reason"`
		Message string `json:"message,omitempty"`
		WaitMS  int64  `json:"waitMs"`
		Attempt int    `json:"attempt"` // number of the failed attempt, from 1
		// Attempts is the maximum number of attempts; 0 in journals older than
		// this field.
		Attempts int `json:"attempts,omitempty"`
	}
	// TurnReplied is a complete reply. It is journaled before any of its calls
	// is sent.
	TurnReplied struct {
		Message conversation.Message `json:"message"`
		Stop    string               `json:"stop"`
		Usage   conversation.Usage   `json:"usage"`
		Model   string               `json:"model"`
	}
	// CallSent is journaled before a call is sent to the machine. BootID is the
	// machine's boot, or "" for a tool of the control plane.
	CallSent struct {
		CallID string `json:"callId"`
		BootID string `json:"bootId,omitempty"`
		// Unhooked says that no hooks were run for the call, because none were
		// known. If the machine has hooks, it refuses to start such a call.
		Unhooked bool `json:"unhooked,omitempty"`
	}
	// CallReturned says that the machine did not start a call that was sent without hooks,
	// because the machine has hooks now. The server decides again about the call.
	CallReturned struct {
		CallID string `json:"callId"`
	}
	// CallDelta is a piece of a running call's output.
	CallDelta struct {
		CallID string `json:"callId"`
		Stdout string `json:"stdout,omitempty"`
		Stderr string `json:"stderr,omitempty"`
		Upto   uint64 `json:"upto,omitempty"` // exec-daemon's number of the last delta in this event
	}
	// CallDone is the result of a call. Text is stored exactly as the model received it, so
	// that a newer version of the server does not change the conversation.
	CallDone struct {
		CallID     string               `json:"callId"`
		Text       string               `json:"text"`
		Error      bool                 `json:"error,omitempty"`
		Output     json.RawMessage      `json:"output,omitempty"` // for programs: {"success": …} or {"error": …}
		Images     []conversation.Image `json:"images,omitempty"`
		DurationMS int64                `json:"durationMs"`
	}
	// Compacted replaces all previous messages except the last Keep by a
	// summary.
	Compacted struct {
		Summary string `json:"summary"` // written by the model
		// Memory follows the summary and contains the prompts, the todo list,
		// the rules and the changed files, unchanged. It is "" in older
		// journals.
		Memory string `json:"memory,omitempty"`
		// Images are the [PromptImages] of the replaced messages that follow the memory, as
		// indexes from 0.
		Images []int              `json:"images,omitempty"`
		Keep   int                `json:"keep"`
		Usage  conversation.Usage `json:"usage"`
	}
	// CancelAsked is a request to cancel the run.
	CancelAsked struct {
		Reason string `json:"reason"`
	}
	// Paused records that the agent must wait before its next model request or tool call,
	// while a person works in its machine.
	Paused struct {
		UserID int64 `json:"userId"` // who paused it
	}
	// Resumed records that the agent may continue.
	Resumed struct {
		UserID int64 `json:"userId"`
	}
	// Committed records that the agent's uncommitted changes were committed.
	Committed struct {
		RepoURL string `json:"repoUrl,omitempty"` // "" in journals of agents with one repository
		Commit  string `json:"commit"`
		Message string `json:"message"`
		// Unhooked says why the project's git hooks rejected the commit or did not run; "" if
		// they passed.
		Unhooked string `json:"unhooked,omitempty"`
	}
	// Pushed records that the branch is on the remote.
	Pushed struct {
		RepoURL string `json:"repoUrl"`
		Branch  string `json:"branch"`
		Commit  string `json:"commit"`
		// Unhooked has the same meaning as in [Committed].
		Unhooked string `json:"unhooked,omitempty"`
	}
	// RunEnded is the last event of every run.
	RunEnded struct {
		Status  Status   `json:"status"`
		Result  string   `json:"result,omitempty"`
		Failure *Failure `json:"failure,omitempty"`
		// Outcome and Evidence are "" and nil in journals older than these
		// fields.
		Outcome  Outcome   `json:"outcome,omitempty"`
		Evidence *Evidence `json:"evidence,omitempty"`
	}
)

// ofMachine reports whether the notice is about the machine.
func (n *Notice) ofMachine() bool {
	switch n.Code {
	case "", CodeSlept, CodeOutOfMemory, CodeDiskLimit:
		return true
	}
	return false
}

// CodeSlept is the code of the notice that says how long the machine slept.
const CodeSlept = "slept"

// CodeCut is the code of the notice that a reply was cut off because it was too long.
const CodeCut = "reply_cut"

// CodeHook is the code of a notice with a message from hooks.
const CodeHook = "hook"

// CodeBaseMissing is the code of the notice that a repository lacks the team's
// base branch.
const CodeBaseMissing = "base_missing"

// CodeEnvironmentGone is the code of the notice that the saved environment with which
// the agent was created is no longer available.
const CodeEnvironmentGone = "environment_gone"

// CodeMCP is the code of the notice that lists the tools and resources of the
// MCP servers.
const CodeMCP = "mcp_servers"

// Kind returns the name of the event type in the journal. Names are never
// reused.
func (*Created) Kind() string           { return "agent.created" }
func (*Archived) Kind() string          { return "agent.archived" }
func (*RunCreated) Kind() string        { return "run.created" }
func (*RunStarted) Kind() string        { return "run.started" }
func (*BootStep) Kind() string          { return "boot.step" }
func (*MachineMade) Kind() string       { return "machine.made" }
func (*MachineReady) Kind() string      { return "machine.ready" }
func (*MachineLost) Kind() string       { return "machine.lost" }
func (*BaseMissing) Kind() string       { return "repository.base_missing" }
func (*VariablesGiven) Kind() string    { return "variables.given" }
func (*MachineHibernated) Kind() string { return "machine.hibernated" }
func (*MachineWoken) Kind() string      { return "machine.woken" }
func (*MachineSaved) Kind() string      { return "machine.saved" }
func (*MachineExpiring) Kind() string   { return "machine.expiring" }
func (*MachineExpired) Kind() string    { return "machine.expired" }
func (*ScriptKept) Kind() string        { return "environment.script" }
func (*Notice) Kind() string            { return "notice" }
func (*TextDelta) Kind() string         { return "text.delta" }
func (*ThinkingDelta) Kind() string     { return "thinking.delta" }
func (*ModelRetry) Kind() string        { return "model.retry" }
func (*TurnReplied) Kind() string       { return "turn.replied" }
func (*CallSent) Kind() string          { return "call.sent" }
func (*CallReturned) Kind() string      { return "call.returned" }
func (*CallDelta) Kind() string         { return "call.delta" }
func (*CallDone) Kind() string          { return "call.done" }
func (*Compacted) Kind() string         { return "compacted" }
func (*CancelAsked) Kind() string       { return "cancel.asked" }
func (*Paused) Kind() string            { return "agent.paused" }
func (*Resumed) Kind() string           { return "agent.resumed" }
func (*Committed) Kind() string         { return "committed" }
func (*Pushed) Kind() string            { return "pushed" }
func (*RunEnded) Kind() string          { return "run.ended" }

func (b *CancelAsked) fold(s *State, _ Event) { s.Cancel = b.Reason }

// Register the events that this file declares.
var _ = register(
	&Created{}, &Archived{}, &MachineSaved{}, &RunCreated{}, &RunStarted{}, &BootStep{},
	&MachineMade{}, &MachineReady{}, &MachineLost{}, &ScriptKept{}, &Notice{}, &TextDelta{},
	&ThinkingDelta{}, &ModelRetry{}, &TurnReplied{}, &CallSent{}, &CallReturned{}, &CallDelta{},
	&CallDone{}, &Compacted{}, &CancelAsked{}, &Committed{}, &Pushed{}, &RunEnded{},
	&Paused{}, &Resumed{}, &VariablesGiven{}, &BaseMissing{}, &MachineHibernated{}, &MachineWoken{},
	&MachineExpiring{}, &MachineExpired{},
)

// Encode returns the journal's encoding of a body.
func Encode(b Body) (kind string, data []byte, err error) {
	data, err = json.Marshal(b)
	return b.Kind(), data, err
}

// Decode is the inverse of [Encode].
func Decode(kind string, data []byte) (Body, error) {
	of, ok := kinds[kind]
	if !ok {
		return nil, fmt.Errorf("event of unknown kind %q: it was written by a newer version", kind)
	}
	b, _ := reflect.New(of).Interface().(Body) // the map contains only such types
	if err := json.Unmarshal(data, b); err != nil {
		return nil, fmt.Errorf("event %s: %w", kind, err)
	}
	return b, nil
}
