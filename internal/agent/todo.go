package agent

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Todo is an item of an agent's todo list.
type Todo struct {
	ID      string `json:"id"`
	Content string `json:"content"`
	Status  string `json:"status"` // pending, in_progress, completed or cancelled
}

// todosOf returns the todo list in a result of TodoWrite.
func todosOf(output json.RawMessage) ([]Todo, bool) {
	var out struct {
		Success *struct {
			Todos []Todo `json:"todos"`
		} `json:"success"`
	}
	if json.Unmarshal(output, &out) != nil || out.Success == nil {
		return nil, false
	}
	return out.Success.Todos, true
}

// MostTodos is how many versions of its todo list an agent remembers for
// rewinding.
const MostTodos = 100

// TodosOf returns the todo list that an event contains, if any.
func TodosOf(e Event) ([]Todo, bool) {
	switch b := e.Body.(type) {
	case *Forked:
		return b.Todos, len(b.Todos) > 0
	case *CallDone:
		if !bytes.Contains(b.Output, []byte(`"todos"`)) {
			return nil, false // most events have no list
		}
		todos, ok := todosOf(b.Output)
		return todos, ok && todos != nil
	}
	return nil, false
}

// todo folds one event into the positions of the todo lists.
func (a *Agent) todo(e Event) {
	if b, ok := e.Body.(*Rewound); ok {
		a.Todos = slices.DeleteFunc(slices.Clone(a.Todos), func(seq int64) bool { return seq >= b.To })
		return
	}
	if _, ok := TodosOf(e); ok {
		a.Todos = append(slices.Clip(a.Todos[max(len(a.Todos)-MostTodos+1, 0):]), e.Seq)
	}
}
