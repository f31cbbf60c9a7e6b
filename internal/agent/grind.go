package agent

import "slices"

// The tools with which an agent works in rounds.
const (
	GrindPlanTool = "StartGrindPlanning"
	GrindTool     = "StartGrindExecution"
)

// CodeOpenTasks is the code of the notice that begins another round because
// items of the todo list are open.
const CodeOpenTasks = "tasks_open"

// GrindBegan records that the agent works in rounds until its todo list has no open
// items. It is journaled together with the [CallDone] of a call of [GrindTool]. Each
// [Notice] with [CodeOpenTasks] begins another round.
type GrindBegan struct {
	Open int `json:"open"` // number of open items
}

var _ = register(&GrindBegan{})

// Kind implements [Body].
func (*GrindBegan) Kind() string { return "grind.began" }

// Grinding is the state of work in rounds. It ends with the run.
type Grinding struct {
	On     bool
	Rounds int      // how many further rounds have begun
	Before []string // ids of the items that were open when the current round began
}

// Closed reports whether an item was closed in the current round, given the
// items that are open now.
func (g *Grinding) Closed(open []Todo) bool {
	return slices.ContainsFunc(g.Before, func(id string) bool {
		return !slices.ContainsFunc(open, func(t Todo) bool { return t.ID == id })
	})
}

// Open reports whether the item is neither completed nor cancelled.
func (t Todo) Open() bool { return t.Status != "completed" && t.Status != "cancelled" }

// OpenTodos returns the open items of a todo list.
func OpenTodos(list []Todo) []Todo {
	return slices.DeleteFunc(slices.Clone(list), func(t Todo) bool { return !t.Open() })
}

// grind folds events about work in rounds.
func (s *State) grind(e Event) {
	g := &s.Grinding
	begin := func() {
		g.Before = nil
		for _, t := range OpenTodos(s.Todos) {
			g.Before = append(g.Before, t.ID)
		}
	}
	switch b := e.Body.(type) {
	case *RunCreated:
		*g = Grinding{}
	case *GrindBegan:
		g.On = true
		begin()
	case *Notice:
		if b.Code == CodeOpenTasks {
			g.Rounds++
			begin()
		}
	}
}
