package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/tool"
)

// maxTodos is the maximum length of a todo list.
const maxTodos = 200

// statuses are the statuses of an item, as in proto/agent/v1/todos_tool.proto.
var statuses = []string{"pending", "in_progress", "completed", "cancelled"}

// todoWrite changes the agent's todo list. The list is stored as the result of
// the call.
func todoWrite(args json.RawMessage, list []agent.Todo) tool.Result {
	var in struct {
		Todos []agent.Todo `json:"todos"`
		Merge *bool        `json:"merge"`
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return tool.Failed("the arguments do not match the schema: %v", err)
	}
	if in.Merge == nil {
		return tool.Failed("merge is missing: true changes the listed items, false replaces the list")
	}
	if !*in.Merge {
		if len(in.Todos) < 2 {
			return tool.Failed("todos: a list has at least two items; a single step needs no list")
		}
		list = nil
	}
	list = slices.Clone(list)
	seen := map[string]bool{}
	for i, t := range in.Todos {
		switch {
		case t.ID == "":
			return tool.Failed("todos[%d].id is missing", i)
		case seen[t.ID]:
			return tool.Failed("todos[%d].id: duplicate %q", i, t.ID)
		case t.Content == "":
			return tool.Failed("todos[%d].content is missing", i)
		case !slices.Contains(statuses, t.Status):
			return tool.Failed("todos[%d].status is %q; must be one of %s", i, t.Status, strings.Join(statuses, ", "))
		}
		seen[t.ID] = true
		if at := slices.IndexFunc(list, func(o agent.Todo) bool { return o.ID == t.ID }); at >= 0 {
			list[at] = t
		} else {
			list = append(list, t)
		}
	}
	if len(list) > maxTodos {
		return tool.Failed("todos: has %d items; the limit is %d: merge some", len(list), maxTodos)
	}
	return todoList(list)
}

// readTodos returns the agent's todo list, or its items with one status.
func readTodos(args json.RawMessage, list []agent.Todo) tool.Result {
	var in struct {
		Status string `json:"status"`
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return tool.Failed("the arguments do not match the schema: %v", err)
	}
	if in.Status != "" && !slices.Contains(statuses, in.Status) {
		return tool.Failed("status is %q; must be one of %s", in.Status, strings.Join(statuses, ", "))
	}
	wanted := slices.DeleteFunc(slices.Clone(list), func(t agent.Todo) bool { return in.Status != "" && t.Status != in.Status })
	r := todoList(wanted)
	switch {
	case len(list) == 0:
		r.Text = "The list is empty: create one with TodoWrite."
	case len(wanted) == 0:
		r.Text = fmt.Sprintf("None of the %d items is %s.", len(list), in.Status)
	}
	return r
}

// todoList is the result with the given list.
func todoList(list []agent.Todo) tool.Result {
	output, err := json.Marshal(map[string]any{"success": map[string]any{"todos": append([]agent.Todo{}, list...)}})
	if err != nil {
		return tool.Failed("todos: %v", err)
	}
	var text strings.Builder
	for _, t := range list {
		fmt.Fprintf(&text, "[%s] %s: %s\n", t.Status, t.ID, t.Content)
	}
	return tool.Result{Text: text.String(), Output: output}
}
