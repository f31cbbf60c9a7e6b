package agent

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"aloft/internal/allowance"
	"aloft/internal/conversation"
	"aloft/internal/subagent"
)

// Event is one line of an agent's journal.
type Event struct {
	Seq   int64 // from 1 per agent, without gaps; 0 until it is journaled
	RunID string
	Time  time.Time
	Body  Body
}

// Body is what happened: a pointer to one of the types of this file.
type Body interface{ Kind() string }

// Housekeeping reports whether the event is the server's own doing, with nobody
// using the agent: it does not make the agent one that was used just now.
func (e Event) Housekeeping() bool {
	switch e.Body.(type) {
	case *MachineHibernated, *MachineExpiring, *MachineExpired, *PullRequestSeen:
		return true
	}
	return false
}

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
		RunMode             string             `json:"runMode,omitempty"` // of package permit; "" is the server's own
		Branch              string             `json:"branch,omitempty"`  // to be made; "" to stay on the starting ref
		Pull                PullRequestOptions `json:"pull,omitzero"`
		// Subagents are those that came with the wish for the agent.
		Subagents []subagent.Definition `json:"subagents,omitempty"`
		// WebhookEvents are what its webhook is told of; none is all.
		WebhookEvents []string `json:"webhookEvents,omitempty"`
		// EnvironmentText is the environment.json of the saved environment Env.ID when
		// the agent was created. It replaces the environment after that is deleted. ""
		// if Env.ID is "", and in journals written before it was recorded.
		EnvironmentText string `json:"environmentText,omitempty"`
	}
	// Archived files the agent away, or brings it back.
	Archived struct {
		Archived bool `json:"archived"`
	}
	// RunCreated is the first event of every run. Its prompt says nothing where the
	// model is only to answer again, after [Rewound].
	RunCreated struct {
		Prompt conversation.Message `json:"prompt"`
		Trace  string               `json:"trace,omitempty"` // the traceparent that came with the request
		// MCP says that MCP servers came with the prompt, in place of those before;
		// they are kept sealed, by the run's id.
		MCP  bool   `json:"mcp,omitempty"`
		Mode string `json:"mode,omitempty"` // from now on; "" leaves it as it is
		// Model is the agent's from now on, "default" for the default; "" leaves it as
		// it is.
		Model string `json:"model,omitempty"`
		// Limit is what a person lets this run use and those after it; nil leaves it as
		// it is.
		Limit *allowance.Amount `json:"limit,omitempty"`
	}
	// RunStarted says that a server has taken the run.
	RunStarted struct {
		// Limit is at what it ends: the strictest of what its person, the team and the
		// server have said.
		Limit  allowance.Amount `json:"limit,omitzero"`
		Paused bool             `json:"paused,omitempty"` // the agent was, since before the run
		// Privacy is the team's privacy mode when the run was asked for, which holds
		// until the run ends; nil in journals written before it was recorded.
		Privacy *bool `json:"privacy,omitempty"`
	}
	// BootStep is a named step of making the machine ready.
	BootStep struct {
		Name       string `json:"name"`
		State      string `json:"state"` // running, done, failed
		DurationMS int64  `json:"durationMs,omitempty"`
		Detail     string `json:"detail,omitempty"`
	}
	// MachineMade says which machine the agent has from now on, before it is booted.
	MachineMade struct {
		MachineID string `json:"machineId"`
		Layer     string `json:"layer,omitempty"`   // that its disk begins with
		Install   bool   `json:"install,omitempty"` // no build has done it: it is to be run in the machine
		// Origin is the commit that the agent starts from, as the server found it
		// before the first machine was there.
		Origin string `json:"origin,omitempty"`
		// RulesAt is the commit of the default branch then.
		RulesAt string `json:"rulesAt,omitempty"`
		// Egress is what the environment makes of the machine's network.
		Egress Egress `json:"egress,omitzero"`
	}
	// MachineReady says that the machine is up.
	MachineReady struct {
		MachineID  string `json:"machineId"`
		BootID     string `json:"bootId"` // another one is another life of the machine
		BaseCommit string `json:"baseCommit,omitempty"`
		Branch     string `json:"branch,omitempty"`
		User       string `json:"user,omitempty"` // of the agent's processes; "" in older journals
		// Others are of the agent's repositories but the first, in their order.
		Others []Checkout `json:"others,omitempty"`
	}
	// BaseMissing says that a repository lacks the team's base branch: the work on it
	// starts at its default branch.
	BaseMissing struct {
		RepoURL string `json:"repoUrl"`
		Branch  string `json:"branch"` // the team's base branch
	}
	// VariablesGiven says which variables were put into the machine's environment.
	// It tells no value.
	VariablesGiven struct {
		Names []string `json:"names"`
	}
	// MachineLost says that the machine stopped without being asked to.
	MachineLost struct {
		MachineID string `json:"machineId"`
		Reason    string `json:"reason"`
	}
	// MachineHibernated says that the machine is put to sleep, since nobody uses
	// it: it keeps its disk, and its processes where its runtime can.
	MachineHibernated struct {
		MachineID string `json:"machineId"`
		Alive     bool   `json:"alive,omitempty"`  // its processes are saved too
		Code      string `json:"code,omitempty"`   // why not: disk_only, no_memory, no_room, failed
		Reason    string `json:"reason,omitempty"` // the same in words
	}
	// MachineWoken says that somebody needed a machine that slept or had stopped.
	MachineWoken struct {
		MachineID string `json:"machineId"`
		BootID    string `json:"bootId"`
		Alive     bool   `json:"alive,omitempty"` // its processes go on
		// Started says that start and the terminals of the environment were started
		// in this life of the machine.
		Started bool `json:"started,omitempty"`
	}
	// MachineSaved says that the machine's disk was saved: others may begin with it.
	MachineSaved struct {
		MachineID  string `json:"machineId"`
		SnapshotID string `json:"snapshotId"`
	}
	// MachineExpiring warns that a machine is about to be removed with its disk,
	// unless it is used before.
	MachineExpiring struct {
		MachineID string    `json:"machineId"`
		At        time.Time `json:"at"`
	}
	// MachineExpired says that nobody has used the machine for so long that it is
	// removed with its disk. What was pushed stays.
	MachineExpired struct {
		MachineID string `json:"machineId"`
	}
	// ScriptKept says that the agent has set what later machines of its repository
	// install.
	ScriptKept struct {
		EnvironmentID string `json:"environmentId"`
		VersionID     string `json:"versionId"`
		Script        string `json:"script"`
	}
	// Notice is something that the model is told with its next turn.
	Notice struct {
		Text string `json:"text"`
		Code string `json:"code,omitempty"` // of the fault that the model is to mend, or one of those below
	}
	// TextDelta is a piece of a reply, in the order in which watchers see it.
	TextDelta struct {
		Text string `json:"text"`
	}
	// ThinkingDelta is a piece of the reasoning.
	ThinkingDelta struct {
		Text string `json:"text"`
	}
	// ModelRetry says that the model could not answer and is asked again.
	ModelRetry struct {
		Reason  string `json:"reason"`
		Message string `json:"message,omitempty"`
		WaitMS  int64  `json:"waitMs"`
		Attempt int    `json:"attempt"` // that failed, from 1
		// Attempts is how many there are in all; 0 in journals of before it was noted.
		Attempts int `json:"attempts,omitempty"`
	}
	// TurnReplied is a whole reply. No call of it is sent before this is journaled.
	TurnReplied struct {
		Message conversation.Message `json:"message"`
		Stop    string               `json:"stop"`
		Usage   conversation.Usage   `json:"usage"`
		Model   string               `json:"model"`
	}
	// CallSent comes before a call is sent to the machine of that boot; BootID is empty for a tool of
	// the control plane.
	CallSent struct {
		CallID string `json:"callId"`
		BootID string `json:"bootId,omitempty"`
	}
	// CallDelta is output of a call as it comes.
	CallDelta struct {
		CallID string `json:"callId"`
		Stdout string `json:"stdout,omitempty"`
		Stderr string `json:"stderr,omitempty"`
		Upto   uint64 `json:"upto,omitempty"` // exec-daemon's number of the last delta in it
	}
	// CallDone is the result of a call. Text is kept as it was said to the model:
	// what a model was told does not change with the version that reads it.
	CallDone struct {
		CallID     string               `json:"callId"`
		Text       string               `json:"text"`
		Error      bool                 `json:"error,omitempty"`
		Output     json.RawMessage      `json:"output,omitempty"` // for programs: {"success": …} or {"error": …}
		Images     []conversation.Image `json:"images,omitempty"`
		DurationMS int64                `json:"durationMs"`
	}
	// Compacted puts a summary in the place of all messages before it but the
	// last Keep.
	Compacted struct {
		Summary string `json:"summary"` // the model's
		// Memory follows the summary: the prompts, the todo list, the rules and the
		// files that were changed, word for word. It is "" in older journals.
		Memory string `json:"memory,omitempty"`
		// Images are the numbers, from 0, of the [PromptImages] of the replaced
		// messages that follow the memory.
		Images []int              `json:"images,omitempty"`
		Keep   int                `json:"keep"`
		Usage  conversation.Usage `json:"usage"`
	}
	// CancelAsked asks the run to stop.
	CancelAsked struct {
		Reason string `json:"reason"`
	}
	// Paused says that the agent is to wait, before its next request to a model
	// or tool call, while a person works in its machine.
	Paused struct {
		UserID int64 `json:"userId"` // who asked
	}
	// Resumed says that the agent is to go on.
	Resumed struct {
		UserID int64 `json:"userId"`
	}
	// Committed says that what the agent had left uncommitted was committed.
	Committed struct {
		RepoURL string `json:"repoUrl,omitempty"` // "" in journals of agents with one
		Commit  string `json:"commit"`
		Message string `json:"message"`
		// Unhooked is why the project's git hooks did not let it pass, or were not
		// run; "" if they did.
		Unhooked string `json:"unhooked,omitempty"`
	}
	// Pushed says that the branch is on the remote.
	Pushed struct {
		RepoURL string `json:"repoUrl"`
		Branch  string `json:"branch"`
		Commit  string `json:"commit"`
		// Unhooked is as that of Committed.
		Unhooked string `json:"unhooked,omitempty"`
	}
	// RunEnded is the last event of every run.
	RunEnded struct {
		Status  Status   `json:"status"`
		Result  string   `json:"result,omitempty"`
		Failure *Failure `json:"failure,omitempty"`
	}
)

// ofMachine reports whether the notice is of what happened to the machine.
func (n *Notice) ofMachine() bool { return n.Code == "" || n.Code == CodeSlept }

// CodeSlept is the code of the notice that tells for how long the machine slept.
const CodeSlept = "slept"

// CodeCut is the code of the notice that a reply was too long.
const CodeCut = "reply_cut"

// CodeHook is the code of the notice that tells what hooks have to say.
const CodeHook = "hook"

// CodeBaseMissing is the code of the notice that a repository lacks the team's base
// branch.
const CodeBaseMissing = "base_missing"

// CodeEnvironmentGone is the code of the notice that the saved environment with
// which the agent was created is not available any more.
const CodeEnvironmentGone = "environment_gone"

// CodeMCP is the code of the notice that tells what MCP servers offer.
const CodeMCP = "mcp_servers"

// Kind names each body in the journal. A name once used is never used for
// anything else.
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
func (*CallDelta) Kind() string         { return "call.delta" }
func (*CallDone) Kind() string          { return "call.done" }
func (*Compacted) Kind() string         { return "compacted" }
func (*CancelAsked) Kind() string       { return "cancel.asked" }
func (*Paused) Kind() string            { return "agent.paused" }
func (*Resumed) Kind() string           { return "agent.resumed" }
func (*Committed) Kind() string         { return "committed" }
func (*Pushed) Kind() string            { return "pushed" }
func (*RunEnded) Kind() string          { return "run.ended" }

// bodies are the types of the bodies, by kind.
var bodies = func() map[string]reflect.Type {
	m := map[string]reflect.Type{}
	for _, b := range []Body{
		&Created{},
		&Archived{},
		&Forked{},
		&MachineSaved{},
		&RunCreated{},
		&RunStarted{},
		&BootStep{},
		&MachineMade{},
		&MachineReady{},
		&MachineLost{},
		&ScriptKept{},
		&Notice{},
		&TextDelta{},
		&ThinkingDelta{},
		&ModelRetry{},
		&TurnReplied{},
		&CallSent{},
		&CallDelta{},
		&CallDone{},
		&Compacted{},
		&CancelAsked{},
		&Committed{},
		&Pushed{},
		&RunEnded{},
		&Paused{},
		&Resumed{},
		&VariablesGiven{},
		&BaseMissing{},
		&MachineHibernated{},
		&MachineWoken{},
		&MachineExpiring{},
		&MachineExpired{},
		&HookRan{},
		&Submitted{},
		&CallJudged{},
		&Classified{},
		&ApprovalAsked{},
		&ApprovalAnswered{},
		&Rewound{},
		&Queued{},
		&Unqueued{},
		&PullRequestFound{},
		&PullRequestAsked{},
		&PullRequestOpened{},
		&PullRequestFailed{},
		&PullRequestSeen{},
		&SubagentsFound{},
		&TaskBegan{},
		&TaskEnded{},
		&Within{},
		&ModeSwitched{},
	} {
		m[b.Kind()] = reflect.TypeOf(b).Elem()
	}
	return m
}()

// Encode returns what the journal keeps of a body.
func Encode(b Body) (kind string, data []byte, err error) {
	data, err = json.Marshal(b)
	return b.Kind(), data, err
}

// Decode is the inverse of [Encode].
func Decode(kind string, data []byte) (Body, error) {
	of, ok := bodies[kind]
	if !ok {
		return nil, fmt.Errorf("event of unknown kind %q: it was written by a newer version", kind)
	}
	b, _ := reflect.New(of).Interface().(Body) // that is what the map holds
	if err := json.Unmarshal(data, b); err != nil {
		return nil, fmt.Errorf("event %s: %w", kind, err)
	}
	return b, nil
}
