package agent

import (
	"cmp"
	"time"

	"aloft/internal/conversation"
	"aloft/internal/subagent"
)

// State is what an agent's journal folds to: all that a loop needs to go on,
// whoever worked on the agent before.
type State struct {
	Agent      Agent
	Run        Run        // the latest
	Branch     string     // to push; "" before the machine was ready and Created named none
	BaseCommit string     // where the branch began, as the machine says
	Others     []Checkout // of the agent's repositories but the first: as Branch, BaseCommit and Pushed are of that
	Egress     Egress     // how the machine's network is narrowed
	MachineID  string     // "" when there is none
	BootID     string     // of the machine's present life; "" unless it is ready
	LastBootID string     // the BootID under which the machine was last up, whether the agent knows of it or not
	User       string     // whom the machine runs the agent's processes as; "" where no machine has said
	Started    string     // the BootID under which start and the terminals were started for a visitor
	Hibernated bool       // the machine sleeps
	SleptAt    time.Time  // since when
	// Slept is for how long the machine slept, with its processes, without the agent
	// having been told.
	Slept     time.Duration
	Expires   time.Time             // when the machine will be removed; zero unless that was warned of
	Fork      *Forked               // whence the agent began; nil if it began by itself
	Settled   bool                  // a machine of the agent's has been ready at some time
	Used      bool                  // the machine has been ready at some time: its disk may hold work
	Given     []string              // names of the variables that were put into the machine
	Install   bool                  // the machine is to run the environment's install before it is ready for the first time
	Thread                          // the agent's own conversation
	Requested []subagent.Definition // by whoever made the agent
	Defined   []subagent.Definition // by the repositories
	Subagents []Subagent            // that work, and those that can be asked more, the last to begin last
	Asked     []string              // what people have asked of the agent, in their words
	Mode      string                // of working: [ModePlan], or as "" [ModeAgent]
	Cancel    string                // why the run is to stop; "" when it is not
	Trace     string                // the traceparent that came with the request for the run
	Pushed    bool                  // the agent has pushed its branch at some time
	Unhooked  []string              // why commits and pushes were made without the project's git hooks, in all runs
	Submitted bool                  // the hooks have seen the run's prompt
	Granted   []Grant               // what a person has allowed the agent for good
	Refused   []RefusedCall         // in this run
	Recorded  bool                  // a call of RecordTool was sent in this run
	marks     []mark                // of the conversation, where it can be taken back to
	before    *mark                 // it was taken back to this, and no run has begun since
	proposals map[string]Proposal   // of the end of this run, by repository
	// MCPRun is the run with which MCP servers came last; "" if none came.
	MCPRun string
	// EnvironmentGone reports whether the agent was told that its saved environment
	// is not available any more.
	EnvironmentGone bool
}

// RecordTool is the tool that records the desktop.
const RecordTool = "RecordScreen"

// Fold returns the state after the events, which begin with the first of a journal.
func Fold(id string, events []Event) *State {
	s := &State{Agent: Agent{ID: id}}
	for _, e := range events {
		s.Apply(e)
	}
	return s
}

// Apply folds one more event. Events come in order; one that was folded
// before is passed over.
func (s *State) Apply(e Event) {
	if e.Seq <= s.Agent.Head {
		return
	}
	s.Agent.Apply(e)
	if !e.Housekeeping() {
		s.Expires = time.Time{} // it is used
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
	s.judged(e)
	s.proposed(e)
	switch b := e.Body.(type) {
	case *Created:
		s.Branch, s.Requested = b.Branch, b.Subagents
	case *Forked:
		s.forked(b)
	case *RunCreated:
		s.Trace = b.Trace
		if b.MCP {
			s.MCPRun = e.RunID
		}
		s.markRun()
		s.Turns = 0
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
		s.marks = append(s.marks, s.mark()) // before it is folded
	case *Compacted:
		s.marks = nil // they would keep what the summary stands for
	case *Rewound:
		s.rewound(b.To)
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

// pushed marks the repository, which is the first where no other is named.
func (s *State) pushed(url string) {
	for i, r := range s.Agent.Repos {
		if i > 0 && i <= len(s.Others) && r.URL == url {
			s.Others[i-1].Pushed = true
			return
		}
	}
	s.Pushed = true
}

// Checkout is what the machine began with of the agent's n-th repository, from
// 0. It is empty before the machine was ready.
func (s *State) Checkout(n int) Checkout {
	switch {
	case n == 0:
		return Checkout{s.BaseCommit, s.Branch, s.Pushed}
	case n <= len(s.Others):
		return s.Others[n-1]
	}
	return Checkout{}
}

// Next is what a loop has to do.
type Next int

// What there is to do, in the order of a turn.
const (
	NextNothing Next = iota // there is no run, or it has ended
	NextReply               // ask the model
	NextCalls               // work the calls that have no result
	NextFinish              // the model has said its last: commit, push, end
)

// Next returns what a loop has to do now.
func (s *State) Next() Next {
	if s.Run.ID == "" || s.Run.Status.Ended() {
		return NextNothing
	}
	return s.Thread.Next()
}
