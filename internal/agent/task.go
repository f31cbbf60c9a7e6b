package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"aloft/internal/conversation"
	"aloft/internal/subagent"
)

// TaskTool is the tool by which an agent gives work to a subagent.
const TaskTool = "Task"

type (
	// SubagentsFound says which subagents the repositories define, from now on, as
	// their files in the machine have it.
	SubagentsFound struct {
		Definitions []subagent.Definition `json:"definitions,omitempty"`
		Complaints  []string              `json:"complaints,omitempty"` // what of the files is wrong
	}
	// TaskBegan says that a subagent works at a call of [TaskTool]. What happens in
	// its conversation until [TaskEnded] comes as [Within], which names the call: so
	// the conversations of several are told apart.
	TaskBegan struct {
		CallID string `json:"callId"`
		// ID names the subagent: the call with which it began. It is another than
		// CallID where the subagent goes on.
		ID          string `json:"id"`
		Type        string `json:"type"` // explore, …, or the name that a project gave it
		Description string `json:"description"`
		Prompt      string `json:"task"`
		Model       string `json:"model"` // an id of the configuration
		ReadOnly    bool   `json:"readOnly,omitempty"`
		Words       string `json:"words,omitempty"` // of the system prompt, where a project wrote them
		// Background says that the agent does not wait for it: the call has its result
		// at once, and what the subagent comes back with is in [TaskEnded].
		Background bool `json:"background,omitempty"`
	}
	// TaskEnded says that the subagent has come back. It is journaled together with
	// the [CallDone] of the call, unless it worked in the background.
	TaskEnded struct {
		CallID     string             `json:"callId"`
		ID         string             `json:"id"`
		Status     string             `json:"status"` // completed or error
		DurationMS int64              `json:"durationMs"`
		Turns      int                `json:"turns"`
		ToolCalls  int                `json:"toolCalls"`
		Usage      conversation.Usage `json:"usage"` // of this call; the run's holds it too
		// Told is what the agent is told of one that worked in the background.
		Told string `json:"told,omitempty"`
	}
	// Within is an event of the conversation of the subagent that works at the call.
	// It counts for the run, and is no part of the agent's own conversation.
	Within struct {
		CallID string
		Body   Body
	}
)

// Kind implements [Body].
func (*SubagentsFound) Kind() string { return "subagents.found" }

// Kind implements [Body].
func (*TaskBegan) Kind() string { return "task.began" }

// Kind implements [Body].
func (*TaskEnded) Kind() string { return "task.ended" }

// Kind implements [Body].
func (*Within) Kind() string { return "task.event" }

// within is a Within as the journal keeps it.
type within struct {
	CallID string          `json:"callId"`
	Kind   string          `json:"kind"`
	Data   json.RawMessage `json:"data"`
}

// MarshalJSON implements [json.Marshaler].
func (w *Within) MarshalJSON() ([]byte, error) {
	if w.Body == nil {
		return nil, errors.New("it holds no event")
	}
	kind, data, err := Encode(w.Body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(within{w.CallID, kind, data})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (w *Within) UnmarshalJSON(raw []byte) error {
	var in within
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	if in.Kind == w.Kind() {
		return fmt.Errorf("event %s: a subagent has none of its own", in.Kind)
	}
	body, err := Decode(in.Kind, in.Data)
	if err != nil {
		return err
	}
	w.CallID, w.Body = in.CallID, body
	return nil
}

// Inner is the body of an event, also of one in a subagent's conversation.
func (e Event) Inner() Body {
	if w, ok := e.Body.(*Within); ok {
		return w.Body
	}
	return e.Body
}

// A Subagent works at a part of an agent's task, in a conversation of its own.
type Subagent struct {
	TaskBegan // that came last
	Thread
	Asked     []string // its prompts, the first first
	Busy      bool     // it works at the call
	Began     time.Time
	Usage     conversation.Usage // of the call
	ToolCalls int                // likewise
	Followups int                // likewise: how often a hook has had it go on
	Changed   []string           // likewise: files that its tools have written, each once
}

// maxKept is how many subagents that have come back can be asked more.
const maxKept = 8

// maxChanged bounds the files that are named to hooks.
const maxChanged = 200

// CodeFollowup is the code of a notice by which a hook has a conversation go on
// that was at its end.
const CodeFollowup = "hook_followup"

// Subagent returns the one that works at the call, or has the id and has come
// back; nil if there is none.
func (s *State) Subagent(id string) *Subagent {
	for i := range s.Subagents {
		if sub := &s.Subagents[i]; sub.Busy && sub.CallID == id || !sub.Busy && sub.ID == id {
			return sub
		}
	}
	return nil
}

// Background are the subagents that work in the background.
func (s *State) Background() []Subagent {
	var out []Subagent
	for _, sub := range s.Subagents {
		if sub.Busy && sub.Background {
			out = append(out, sub)
		}
	}
	return out
}

// Definitions are the subagents that are not Aloft's own: those of whoever made the
// agent, and of the repositories' those that have another name.
func (s *State) Definitions() []subagent.Definition {
	all := slices.Clone(s.Requested)
	for _, d := range s.Defined {
		if !s.IsRequested(d.Name) {
			all = append(all, d)
		}
	}
	return all
}

// IsRequested reports whether whoever made the agent has defined a subagent of that
// name.
func (s *State) IsRequested(name string) bool {
	return slices.ContainsFunc(s.Requested, func(d subagent.Definition) bool { return d.Name == name })
}

// Find returns the call of that id, whoever made it; nil if none waits for its
// result.
func (s *State) Find(callID string) *Call {
	if c := s.call(callID); c != nil {
		return c
	}
	for i := range s.Subagents {
		if c := s.Subagents[i].call(callID); c != nil {
			return c
		}
	}
	return nil
}

// tasks folds what is of subagents.
func (s *State) tasks(e Event) {
	switch b := e.Body.(type) {
	case *SubagentsFound:
		s.Defined = b.Definitions
	case *TaskBegan:
		s.taskBegan(b, e.Time)
	case *Within:
		if sub := s.Subagent(b.CallID); sub != nil && sub.Busy {
			sub.within(b.Body)
		}
	case *TaskEnded:
		if sub := s.Subagent(b.CallID); sub != nil {
			sub.Busy = false
			s.touch(sub.Changed...)
		}
		if b.Told != "" {
			s.later(b.Told)
		}
		s.keepFew()
	case *Notice:
		s.noticed(b)
	case *RunEnded:
		s.stopTasks("the run ended (" + string(b.Status) + ")")
	}
}

// noticed tells the conversations. What happens to the machine concerns those of
// subagents too; while one works in the background, any of them may have asked its
// model already.
func (s *State) noticed(b *Notice) {
	tell := (*Thread).notice
	if len(s.Background()) > 0 && b.ofMachine() {
		tell = (*Thread).later
	}
	tell(&s.Thread, b.Text)
	for i := range s.Subagents {
		if sub := &s.Subagents[i]; sub.Busy && b.ofMachine() {
			tell(&sub.Thread, b.Text)
		}
	}
}

// stopTasks ends the work of subagents, and tells the agent of those that it does
// not wait for.
func (s *State) stopTasks(why string) {
	s.Subagents = slices.Clone(s.Subagents)
	for i := range s.Subagents {
		sub := &s.Subagents[i]
		if !sub.Busy {
			continue
		}
		sub.Messages, sub.Calls = slices.Clip(sub.Messages), slices.Clone(sub.Calls) // a mark may have them too
		if sub.ended(why); sub.Background {
			s.later(fmt.Sprintf("The subagent %s (%s: %s) has not finished: %s. What it has done in the machine is there; go on with it by resume.", sub.ID, sub.Type, sub.Description, why))
		}
		sub.Busy = false
	}
	s.answer() // no reply is due
	s.keepFew()
}

func (s *State) taskBegan(b *TaskBegan, at time.Time) {
	var thread Thread
	var asked []string
	s.Subagents = slices.Clone(s.Subagents)
	if i := slices.IndexFunc(s.Subagents, func(sub Subagent) bool { return sub.ID == b.ID }); i >= 0 {
		thread, asked = s.Subagents[i].Thread, s.Subagents[i].Asked
		s.Subagents = slices.Delete(s.Subagents, i, i+1)
	}
	thread.Messages = slices.Clip(thread.Messages)
	thread.Turns = 0
	thread.say(conversation.User, conversation.Block{Text: b.Prompt})
	s.Subagents = append(s.Subagents, Subagent{TaskBegan: *b, Thread: thread, Asked: append(slices.Clip(asked), b.Prompt), Busy: true, Began: at})
}

// keepFew forgets those that have come back first.
func (s *State) keepFew() {
	idle := 0
	for _, sub := range s.Subagents {
		if !sub.Busy {
			idle++
		}
	}
	s.Subagents = slices.DeleteFunc(slices.Clone(s.Subagents), func(sub Subagent) bool {
		if sub.Busy || idle <= maxKept {
			return false
		}
		idle--
		return true
	})
}

func (sub *Subagent) within(body Body) {
	switch b := body.(type) {
	case *TurnReplied:
		sub.Usage = sub.Usage.Add(b.Usage)
	case *Compacted:
		sub.Usage = sub.Usage.Add(b.Usage)
	case *Classified:
		sub.Usage = sub.Usage.Add(b.Usage)
	case *Notice:
		if b.Code == CodeFollowup {
			sub.Followups++
		}
		sub.notice(b.Text)
	case *CallDone:
		if c := sub.call(b.CallID); c != nil && c.Result == nil {
			sub.ToolCalls++
			if !b.Error {
				sub.changed(*c)
			}
		}
	}
	sub.apply(body)
}

// changed notes the file that a call has written.
func (sub *Subagent) changed(c Call) {
	if file := writtenBy(c); file != "" && len(sub.Changed) < maxChanged && !slices.Contains(sub.Changed, file) {
		sub.Changed = append(slices.Clip(sub.Changed), file)
	}
}

// Resumable is a subagent as a fork takes it along.
type Resumable struct {
	TaskBegan
	Messages []conversation.Message `json:"messages"`
	Asked    []string               `json:"asked,omitempty"`
	Todos    []Todo                 `json:"todos,omitempty"`
	Memory   Memory                 `json:"memory,omitzero"`
}

// asked returns the prompts of the subagent. Older journals have the last alone.
func (r Resumable) asked() []string {
	if len(r.Asked) == 0 {
		return []string{r.Prompt}
	}
	return slices.Clone(r.Asked)
}

// resumables are the subagents that have come back.
func (s *State) resumables() []Resumable {
	var out []Resumable
	for _, sub := range s.Subagents {
		if !sub.Busy {
			out = append(out, Resumable{sub.TaskBegan, sub.Messages, sub.Asked, sub.Todos, sub.Memory})
		}
	}
	return out
}
