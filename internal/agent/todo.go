package agent

import "encoding/json"

// Todo is an item of an agent's own list of what is to be done.
type Todo struct {
	ID      string `json:"id"`
	Content string `json:"content"`
	Status  string `json:"status"` // pending, in_progress, completed, cancelled
}

// todosOf returns the list that a result of TodoWrite holds.
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
