package agent

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestWhereTodosAre(t *testing.T) {
	list := &CallDone{CallID: "c", Output: json.RawMessage(`{"success":{"todos":[]}}`)}
	var a Agent
	apply := func(bodies ...Body) {
		for _, b := range bodies {
			a.Apply(Event{Seq: a.Head + 1, Body: b})
		}
	}
	apply(&Forked{ForkConversation: ForkConversation{Todos: []Todo{{ID: "1"}}}}, &CallDone{Output: json.RawMessage(`{"success":{"lines":"todos"}}`)}, list, &CallDone{Output: json.RawMessage(`{"error":{"todos":[]}}`)}, list)
	if !slices.Equal(a.Todos, []int64{1, 3, 5}) {
		t.Errorf("the lists are in %v", a.Todos)
	}
	apply(&Rewound{To: 4})
	if !slices.Equal(a.Todos, []int64{1, 3}) {
		t.Errorf("after it was taken back the lists are in %v", a.Todos)
	}
	for range MostTodos {
		apply(list)
	}
	if len(a.Todos) != MostTodos || a.Todos[MostTodos-1] != a.Head {
		t.Errorf("%d lists, the last in %d of %d", len(a.Todos), a.Todos[MostTodos-1], a.Head)
	}
}
