package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"aloft/internal/agent/repeat"
	"aloft/internal/conversation"
	"aloft/internal/subagent"
)

// TaskTool is the tool with which an agent starts a subagent.
const TaskTool = "Task"

type (
	// SubagentsFound records which subagents the repositories define from now
	// on, as read from files in the machine.
	SubagentsFound struct {
		Definitions []subagent.Definition `json:"definitions,omitempty"`
		Complaints  []string              `json:"complaints,omitempty"` // problems in the files
	}
	// TaskBegan records that a subagent starts to work for a call of [TaskTool]. Until
	// [TaskEnded], the events of the subagent's conversation are journaled as [Within] with
	// the call's id, which keeps the conversations of several subagents apart.
	TaskBegan struct {
		CallID string `json:"callId"`
		// ID identifies the subagent: it is the id of the call that first
		// started it. If the subagent is resumed, CallID differs from it.
		ID          string `json:"id"`
		Type        string `json:"type"` // explore, …, or a name that the project defines
		Description string `json:"description"`
		Prompt      string `json:"task"`
		Model       string `json:"model"` // id in the configuration
		ReadOnly    bool   `json:"readOnly,omitempty"`
		Words       string `json:"words,omitempty"` // the system prompt, if a project defines the subagent
		// Background says that the agent does not wait: the call returns at once, and the
		// subagent's answer is in [TaskEnded].
		Background bool `json:"background,omitempty"`
	}
	// TaskEnded records that the subagent has ended. It is journaled together
	// with the [CallDone] of the call, except for a background subagent.
	TaskEnded struct {
		CallID     string             `json:"callId"`
		ID         string             `json:"id"`
		Status     string             `json:"status"` // completed or error
		DurationMS int64              `json:"durationMs"`
		Turns      int                `json:"turns"`
		ToolCalls  int                `json:"toolCalls"`
		Usage      conversation.Usage `json:"usage"` // usage of this call; also included in the run's usage
		// Told is the message to the agent about a background subagent's
		// outcome.
		Told string `json:"told,omitempty"`
	}
	// Within is an event in the conversation of the subagent that works for a call. Its
	// usage counts for the run, but the event is not part of the agent's conversation.
	Within struct {
		CallID string
		Body   Body
	}
)

var _ = register(&SubagentsFound{}, &TaskBegan{}, &TaskEnded{}, &Within{})

// Kind implements [Body].
func (*SubagentsFound) Kind() string { return "subagents.found" }

// Kind implements [Body].
func (*TaskBegan) Kind() string { return "task.began" }

// Kind implements [Body].
func (*TaskEnded) Kind() string { return "task.ended" }

// Kind implements [Body].
func (*Within) Kind() string { return "task.event" }

// within is the journal's encoding of a Within.
type within struct {
	CallID string          `json:"callId"`
	Kind   string          `json:"kind"`
	Data   json.RawMessage `json:"data"`
}

// MarshalJSON implements [json.Marshaler].
func (w *Within) MarshalJSON() ([]byte, error) {
	if w.Body == nil {
		return nil, errors.New("it contains no event")
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
		return fmt.Errorf("event %s is not an event of a subagent", in.Kind)
	}
	body, err := Decode(in.Kind, in.Data)
	if err != nil {
		return err
	}
	w.CallID, w.Body = in.CallID, body
	return nil
}

// Inner returns the body of an event, unwrapped if it is in a subagent's
// conversation.
func (e Event) Inner() Body {
	if w, ok := e.Body.(*Within); ok {
		return w.Body
	}
	return e.Body
}

// A Subagent works on part of an agent's task, in its own conversation.
type Subagent struct {
	TaskBegan // the most recent start
	Thread
	Asked     []string // its prompts, oldest first
	Busy      bool     // it is working
	Began     time.Time
	Usage     conversation.Usage // usage for the current call
	ToolCalls int                // number of tool calls for the current call
	Followups int                // how often a hook made the subagent continue, for the current call
	Changed   []string           // files that the subagent's tools have written for the current call, without duplicates
}

// maxKept is how many ended subagents are kept for resuming.
const maxKept = 8

// maxChanged is how many changed files are kept for the hooks.
const maxChanged = 200

// CodeFollowup is the code of a notice by which a hook makes an ended conversation
// continue.
const CodeFollowup = "hook_followup"

// Subagent returns the subagent that is working for the call id, or the ended
// one with that id, or nil.
func (s *State) Subagent(id string) *Subagent {
	for i := range s.Subagents {
		if sub := &s.Subagents[i]; sub.Busy && sub.CallID == id || !sub.Busy && sub.ID == id {
			return sub
		}
	}
	return nil
}

// Background returns the subagents that work in the background.
func (s *State) Background() []Subagent {
	var out []Subagent
	for _, sub := range s.Subagents {
		if sub.Busy && sub.Background {
			out = append(out, sub)
		}
	}
	return out
}

// Definitions returns the custom subagents: those from the request that created the
// agent, then those of the repositories whose names are not taken.
func (s *State) Definitions() []subagent.Definition {
	all := slices.Clone(s.Requested)
	for _, d := range s.Defined {
		if !s.IsRequested(d.Name) {
			all = append(all, d)
		}
	}
	return all
}

// IsRequested reports whether the request that created the agent defines a subagent
// of that name.
func (s *State) IsRequested(name string) bool {
	return slices.ContainsFunc(s.Requested, func(d subagent.Definition) bool { return d.Name == name })
}

// Find returns the call with that id in any conversation, or nil if the call already has
// its result.
func (s *State) Find(callID string) *Call {
	if c := s.call(callID); c != nil {
		return c
	}
	if c := s.Checking.Thread.call(callID); c != nil {
		return c
	}
	for i := range s.Subagents {
		if c := s.Subagents[i].call(callID); c != nil {
			return c
		}
	}
	return nil
}

// tasks folds events about subagents.
func (s *State) tasks(e Event) {
	switch b := e.Body.(type) {
	case *SubagentsFound:
		s.Defined = b.Definitions
	case *TaskBegan:
		s.taskBegan(b, e.Time)
	case *Within:
		if sub := s.Subagent(b.CallID); sub != nil && sub.Busy {
			sub.foldWithin(b.Body)
		}
	case *TaskEnded:
		if sub := s.Subagent(b.CallID); sub != nil {
			sub.Busy = false
			s.touch(sub.Changed...)
		}
		if b.Told != "" {
			s.queueText(b.Told)
		}
		s.keepFew()
	case *Notice:
		s.noticed(b)
	case *RunEnded:
		s.stopTasks("the run ended (" + string(b.Status) + ")")
	}
}

// noticed delivers a notice to the agent's conversation, and, if it is about the
// machine, also to working subagents. While a subagent works in the background, a model
// request may be in progress, so the notice is placed after the reply to it.
func (s *State) noticed(b *Notice) {
	tell := (*Thread).notice
	if len(s.Background()) > 0 && b.ofMachine() {
		tell = (*Thread).queueText
	}
	tell(&s.Thread, b.Text)
	for i := range s.Subagents {
		if sub := &s.Subagents[i]; sub.Busy && b.ofMachine() {
			tell(&sub.Thread, b.Text)
		}
	}
}

// stopTasks ends all subagents, and tells the agent about those in the
// background.
func (s *State) stopTasks(why string) {
	s.Subagents = slices.Clone(s.Subagents)
	for i := range s.Subagents {
		sub := &s.Subagents[i]
		if !sub.Busy {
			continue
		}
		sub.Messages, sub.Calls = slices.Clip(sub.Messages), slices.Clone(sub.Calls) // a mark may share these slices
		if sub.ended(why); sub.Background {
			s.queueText(fmt.Sprintf("The subagent %s (%s: %s) has not finished: %s. Its work in the machine remains; continue it with resume.", sub.ID, sub.Type, sub.Description, why))
		}
		sub.Busy = false
	}
	s.answer() // no reply is pending
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
	thread.Turns, thread.Repeats, thread.Fallback = 0, repeat.Tracker{}, ""
	thread.say(conversation.User, conversation.Block{Text: b.Prompt})
	s.Subagents = append(s.Subagents, Subagent{TaskBegan: *b, Thread: thread, Asked: append(slices.Clip(asked), b.Prompt), Busy: true, Began: at})
}

// keepFew drops the subagents that ended first.
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

func (sub *Subagent) foldWithin(body Body) {
	switch b := body.(type) {
	case *TurnReplied:
		sub.Usage = sub.Usage.Add(b.Usage)
	case *Compacted:
		sub.Usage = sub.Usage.Add(b.Usage)
	case *Classified:
		sub.Usage = sub.Usage.Add(b.Usage)
	case *ImageGenerated:
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

// changed records the file that a call has written.
func (sub *Subagent) changed(c Call) {
	if file := writtenBy(c); file != "" && len(sub.Changed) < maxChanged && !slices.Contains(sub.Changed, file) {
		sub.Changed = append(slices.Clip(sub.Changed), file)
	}
}

// Resumable is a subagent that a fork can resume.
type Resumable struct {
	TaskBegan
	Messages []conversation.Message `json:"messages"`
	Asked    []string               `json:"asked,omitempty"`
	Todos    []Todo                 `json:"todos,omitempty"`
	Memory   Memory                 `json:"memory,omitzero"`
}

// prompts returns the prompts of the subagent. Older journals have only the last
// one.
func (r Resumable) prompts() []string {
	if len(r.Asked) == 0 {
		return []string{r.Prompt}
	}
	return slices.Clone(r.Asked)
}

// Resumables returns the ended subagents that can be resumed.
func (s *State) Resumables() []Resumable {
	var out []Resumable
	for _, sub := range s.Subagents {
		if !sub.Busy {
			out = append(out, Resumable{sub.TaskBegan, sub.Messages, sub.Asked, sub.Todos, sub.Memory})
		}
	}
	return out
}
