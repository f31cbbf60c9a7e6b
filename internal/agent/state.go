package agent

import (
	"cmp"
	"slices"

	"aloft/internal/agent/repeat"
	"aloft/internal/conversation"
	"aloft/internal/rule"
	"aloft/internal/subagent"
)

// State is the result of folding an agent's journal. It contains everything
// that a loop needs to continue the agent's work.
type State struct {
	Agent         Agent
	Run           Run // the latest run
	RunRecord         // facts about the latest run
	WorkRecord        // the repositories and the branch
	MachineRecord     // the machine
	Thread            // the agent's own conversation
	Delegates         // the subagents
	Permissions       // the agent's permissions
	Verification      // how the end of a run is checked
	Instructions      // the agent's instructions
	Reviewing         // the review of a reviewing agent
	rewindPoints      // where the conversation can be rewound to

	Fork   *Forked // the fork's origin; nil if the agent is not a fork
	Titled bool    // a model has named the agent
	// EnvironmentGone reports whether the agent was told that its saved environment is no
	// longer available.
	EnvironmentGone bool
}

// Instructions are the rules and prompts that an agent was given.
type Instructions struct {
	Found rule.Set // the rules for the agent's work
	Asked []string // the user's prompts
	// Quoted reports whether a prompt of the conversation quotes people other than the
	// owner, because the server created a run from an event.
	Quoted bool
	// OnPull reports whether the conversation began on the branch of a pull request, or
	// as a review.
	OnPull bool
}

// Reviewing is the task and the result of an agent that reviews a change.
type Reviewing struct {
	Review   *ReviewTask // the change to review; nil if the agent is no reviewer
	Findings []Finding   // findings in the order in which they were reported
	Fixed    []string    // IDs of earlier findings that the change fixes

	Composed *ReviewComposed // the review to post; nil if there is none
	Told     []string        // IDs of the findings that were posted
	Post     *ReviewPost     // the last attempt to post the review; nil if there was none
}

// RunRecord is the state of the latest run, in addition to [Run].
type RunRecord struct {
	By        string // [RunCreated.By]
	Trace     string // traceparent of the request for the run
	Cancel    string // why the run has to stop, or ""
	Submitted bool   // the hooks have seen the run's prompt
	Recorded  bool   // a call of RecordTool was sent in this run
	MCPRun    string // the run that last came with MCP servers; "" if none did
}

// Delegates are the subagents that an agent has defined and started.
type Delegates struct {
	Requested []subagent.Definition // from the request that created the agent
	Defined   []subagent.Definition // defined by the repositories
	Subagents []Subagent            // subagents that work or can be resumed, the most recent last
}

// Permissions are the calls that an agent was allowed and refused.
type Permissions struct {
	Mode    string        // [ModePlan], or "" for [ModeAgent]
	Granted []Grant       // calls that a person has permanently allowed
	Refused []RefusedCall // calls that were refused in this run
}

// Verification is how the end of the latest run is checked.
type Verification struct {
	// RequestChecks and EnvironmentChecks are the commands of the run's checks.
	RequestChecks, EnvironmentChecks []string
	Checking                         Checking            // state of the run's checks
	Judging                          Judging             // state of the run's goal
	Grinding                         Grinding            // work in rounds
	Bugfixes                         []Bugfix            // the agent's reports about bugs in this run
	proposals                        map[string]Proposal // pull requests that the end of this run requested, by repository
}

// rewindPoints are the points to which the conversation can be rewound.
type rewindPoints struct {
	marks  []mark
	before *mark // the point to which the conversation was rewound, until the next run starts
}

// RecordTool is the tool that records the desktop.
const RecordTool = "RecordScreen"

// Fold returns the state after the events. events must start with the first event of a
// journal.
func Fold(id string, events []Event) *State {
	s := &State{Agent: Agent{ID: id}}
	for _, e := range events {
		s.Apply(e)
	}
	return s
}

// Apply folds one more event. Events must come in order; an event that was
// already folded is ignored.
func (s *State) Apply(e Event) {
	if e.Seq <= s.Agent.Head {
		return
	}
	s.Agent.Apply(e)
	if _, ok := e.Body.(*RunCreated); ok {
		s.Run = Run{AgentID: s.Agent.ID}
		s.Cancel, s.Recorded = "", false
	}
	if e.RunID != "" {
		s.Run.Apply(e)
	}
	if sent, ok := e.Inner().(*CallSent); ok {
		c := s.Find(sent.CallID)
		s.Recorded = s.Recorded || c != nil && c.Name == RecordTool
	}
	s.check(e)
	s.judge(e)
	s.grind(e)
	s.reported(e)
	s.judged(e)
	s.review(e)
	s.proposed(e)
	s.MachineRecord.apply(e)
	s.WorkRecord.apply(e.Body, s.Agent.Repos)
	switch b := e.Body.(type) {
	case *Created:
		s.Requested = b.Subagents
		s.OnPull = b.Review != nil || slices.ContainsFunc(b.Repos, func(r Repo) bool { return r.PullRequest != "" })
	case *Forked:
		s.forked(b)
	case *RunCreated:
		s.Trace, s.By = b.Trace, b.By
		s.Quoted = s.Quoted || b.By != ""
		if b.MCP {
			s.MCPRun = e.RunID
		}
		s.markRun()
		s.Turns, s.Repeats, s.Fallback = 0, repeat.Tracker{}, ""
		if len(b.Prompt.Blocks) > 0 {
			s.Asked = append(s.Asked, b.Prompt.PlainText())
		}
		s.say(conversation.User, b.Prompt.Blocks...)
		if s.Mode = cmp.Or(b.Mode, s.Mode); s.Mode == ModePlan && len(b.Prompt.Blocks) > 0 {
			s.say(conversation.User, conversation.Block{Text: PlanWords})
		}
	case *Notice:
		s.EnvironmentGone = s.EnvironmentGone || b.Code == CodeEnvironmentGone
	case *TurnReplied:
		s.marks = append(s.marks, s.mark()) // the mark is the state before the reply
	case *Compacted:
		s.marks = nil // older marks would keep the replaced messages in memory
	case *RunEnded:
		s.ended("the run ended (" + string(b.Status) + ")")
	case interface{ fold(s *State, e Event) }:
		b.fold(s, e)
	}
	s.tasks(e)
	s.Thread.apply(e.Body)
}

// Next is the next step of a loop.
type Next int

// The steps of a turn, in order.
const (
	NextNothing Next = iota // there is no run, or it has ended
	NextReply               // ask the model
	NextCalls               // run the calls that have no result
	NextFinish              // the last reply has no calls: commit, push, end
)

// Next returns the next step of the run.
func (s *State) Next() Next {
	if s.Run.ID == "" || s.Run.Status.Ended() {
		return NextNothing
	}
	return s.Thread.Next()
}
