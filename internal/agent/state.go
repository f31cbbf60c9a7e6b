package agent

import (
	"cmp"
	"time"

	"aloft/internal/conversation"
	"aloft/internal/rule"
	"aloft/internal/subagent"
)

// State is what an agent's journal folds to: everything that a loop needs to
// continue the agent's work.
type State struct {
	Agent      Agent
	Run        Run        // the latest run
	Branch     string     // to push; "" before the machine was ready if Created named none
	BaseCommit string     // where the branch starts, as the machine reports
	Others     []Checkout // the repositories except the first, whose checkout is Branch, BaseCommit and Pushed
	Egress     Egress     // the machine's network restriction
	MachineID  string     // "" if there is none
	BootID     string     // of the machine's current boot; "" unless it is ready
	LastBootID string     // BootID of the machine's last boot, even if the agent does not know of it
	User       string     // runs the agent's processes in the machine; "" if not known yet
	// Facilities describes the agent's first machine, and never changes after that; nil
	// if it is not known.
	Facilities *Facilities
	Started    string    // BootID of the boot in which start and the terminals were started for a visitor
	Hibernated bool      // the machine sleeps
	SleptAt    time.Time // since when it sleeps
	// Slept is how long the machine has slept, with its processes, since the
	// agent was last told.
	Slept     time.Duration
	Expires   time.Time             // when the machine will be removed; zero unless a warning was journaled
	Fork      *Forked               // the fork's origin; nil if the agent is not a fork
	Settled   bool                  // one of the agent's machines was ready at some time
	Used      bool                  // the current machine was ready at some time: its disk may contain work
	Given     []string              // names of the variables set in the machine
	Install   bool                  // the machine must run the environment's install command before it is first ready
	Thread                          // the agent's own conversation
	Requested []subagent.Definition // from the request that created the agent
	Defined   []subagent.Definition // by the repositories
	Subagents []Subagent            // working ones, and those that can be resumed, the most recent last
	Found     rule.Set              // the rules for the agent's work
	Asked     []string              // the user's prompts
	By        string                // [RunCreated.By] of the latest run
	Mode      string                // [ModePlan], or "" for [ModeAgent]
	Titled    bool                  // a model has given the agent its name
	Cancel    string                // why the run has to stop, or ""
	Trace     string                // traceparent of the request for the run
	Pushed    bool                  // the branch has been pushed
	Unhooked  []string              // why commits and pushes skipped the project's git hooks, in all runs
	Submitted bool                  // the hooks have seen the run's prompt
	Granted   []Grant               // what a person has permanently allowed the agent
	Refused   []RefusedCall         // in this run
	Recorded  bool                  // a call of RecordTool was sent in this run
	// RequestChecks and EnvironmentChecks are the commands of the run's checks.
	RequestChecks, EnvironmentChecks []string
	Checking                         Checking            // of the run
	Judging                          Judging             // of the goal of the run
	Grinding                         Grinding            // work in rounds
	marks                            []mark              // points to which the conversation can be rewound
	before                           *mark               // the conversation was rewound to this, and no run has started since
	proposals                        map[string]Proposal // of the end of this run, by repository
	// MCPRun is the run that last came with MCP servers; "" if none did.
	MCPRun string
	// Kills is how many processes killed for lack of memory in the current boot of
	// the machine have been journaled.
	Kills int
	// EnvironmentGone reports whether the agent was told that its saved environment
	// is not available any more.
	EnvironmentGone bool
}

// RecordTool is the tool that records the desktop.
const RecordTool = "RecordScreen"

// Fold returns the state after the events, which start with the first of a
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
	if !e.Housekeeping() {
		s.Expires = time.Time{} // the machine is in use again
	}
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
	s.judged(e)
	s.proposed(e)
	s.countKills(e.Body)
	switch b := e.Body.(type) {
	case *Created:
		s.Branch, s.Requested = b.Branch, b.Subagents
	case *Forked:
		s.forked(b)
	case *RunCreated:
		s.Trace, s.By = b.Trace, b.By
		if b.MCP {
			s.MCPRun = e.RunID
		}
		s.markRun()
		s.Turns, s.Repeats, s.Fallback = 0, Repeats{}, ""
		if len(b.Prompt.Blocks) > 0 {
			s.Asked = append(s.Asked, b.Prompt.PlainText())
		}
		s.say(conversation.User, b.Prompt.Blocks...)
		if s.Mode = cmp.Or(b.Mode, s.Mode); s.Mode == ModePlan && len(b.Prompt.Blocks) > 0 {
			s.say(conversation.User, conversation.Block{Text: PlanWords})
		}
	case *MachineMade:
		s.Egress = b.Egress
		s.MachineID, s.BootID, s.Used, s.Given, s.Install = b.MachineID, "", false, nil, b.Install
		s.Hibernated = false
	case *MachineReady:
		s.BootID, s.LastBootID, s.Used, s.Settled, s.Hibernated, s.Slept = b.BootID, b.BootID, true, true, false, 0
		s.User = cmp.Or(b.User, s.User)
		s.Facilities = cmp.Or(s.Facilities, b.Facilities)
		if s.BaseCommit == "" {
			s.BaseCommit = b.BaseCommit
		}
		if b.Branch != "" {
			s.Branch = b.Branch
		}
		for i, other := range b.Others {
			if i == len(s.Others) {
				s.Others = append(s.Others, Checkout{})
			}
			s.Others[i].BaseCommit = cmp.Or(s.Others[i].BaseCommit, other.BaseCommit)
			s.Others[i].Branch = cmp.Or(other.Branch, s.Others[i].Branch)
		}
	case *VariablesGiven:
		s.Given = b.Names
	case *MachineHibernated:
		s.Hibernated, s.SleptAt = true, e.Time
	case *MachineWoken:
		s.Hibernated, s.LastBootID = false, b.BootID
		if b.Started {
			s.Started = b.BootID
		}
		if b.Alive {
			s.Slept += e.Time.Sub(s.SleptAt)
		}
	case *MachineExpiring:
		s.Expires = b.At
	case *MachineExpired:
		s.MachineID, s.BootID, s.Hibernated = "", "", false
	case *MachineLost:
		s.BootID = ""
	case *Notice:
		switch b.Code {
		case CodeSlept:
			s.Slept = 0
		case CodeEnvironmentGone:
			s.EnvironmentGone = true
		}
	case *TurnReplied:
		s.marks = append(s.marks, s.mark()) // the mark is the state before the reply
	case *Compacted:
		s.marks = nil // older marks would keep the replaced messages in memory
	case *Rewound:
		s.rewound(b.To)
	case *RulesFound:
		s.found(b)
	case *Titled:
		s.Titled = true
	case *ModeSwitched:
		s.Mode = b.Mode
	case *CancelAsked:
		s.Cancel = b.Reason
	case *Committed:
		s.Unhooked = unhooked(s.Unhooked, b.Unhooked)
	case *Pushed:
		s.Unhooked = unhooked(s.Unhooked, b.Unhooked)
		s.pushed(b.RepoURL)
	case *RunEnded:
		s.ended("the run ended (" + string(b.Status) + ")")
	}
	s.tasks(e)
	s.apply(e.Body)
}

// pushed marks the repository as pushed. The first one is meant if no other has
// the URL.
func (s *State) pushed(url string) {
	for i, r := range s.Agent.Repos {
		if i > 0 && i <= len(s.Others) && r.URL == url {
			s.Others[i-1].Pushed = true
			return
		}
	}
	s.Pushed = true
}

// Checkout returns the state in which the machine started the agent's n-th
// repository, from 0. It is empty until the machine was ready.
func (s *State) Checkout(n int) Checkout {
	switch {
	case n == 0:
		return Checkout{s.BaseCommit, s.Branch, s.Pushed}
	case n <= len(s.Others):
		return s.Others[n-1]
	}
	return Checkout{}
}

// Next is the next step of a loop.
type Next int

// The steps, in the order of a turn.
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
