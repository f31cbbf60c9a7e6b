package loop

import (
	"context"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/journal"
	"aloft/internal/tool"
)

// A Shortage is an event about a resource that the machine has exhausted.
type Shortage interface {
	agent.Body
	Text() string
}

// shortages is the latest shortage of the run's machine.
type shortages struct {
	sync.Mutex // held while the loop looks for shortages and journals them
	text       string
	time       time.Time
	disk       bool // the latest shortage is of disk space, not memory
}

// noteShortages journals new shortages of the machine. The result of the call
// callID will tell the model; if callID is "", a notice does.
func (l *Loop) noteShortages(ctx context.Context, callID string) error {
	if l.Shortages == nil {
		return nil
	}
	ctx, cancel := journal.Outliving(ctx)
	defer cancel()
	l.short.Lock()
	defer l.short.Unlock()
	for _, s := range l.Shortages(ctx, l.rec.Snapshot()) {
		var notice *agent.Notice
		switch s := s.(type) {
		case *agent.MachineOutOfMemory:
			s.CallID, s.Message, l.short.disk = callID, s.Text(), false
			notice = &agent.Notice{Code: agent.CodeOutOfMemory, Text: s.Message}
		case *agent.MachineDiskFull:
			s.CallID, s.Message, l.short.disk = callID, s.Text(), true
			notice = &agent.Notice{Code: agent.CodeDiskLimit, Text: s.Message}
		}
		l.short.text, l.short.time = s.Text(), time.Now()
		bodies := []agent.Body{s}
		if callID == "" && notice != nil {
			bodies = append(bodies, notice)
		}
		if err := l.rec.Record(ctx, bodies...); err != nil {
			return err
		}
	}
	return nil
}

// tellShortage appends the shortages of the machine since the call began to the
// call's result.
func (l *Loop) tellShortage(ctx context.Context, c agent.Call, began time.Time, r *tool.Result) error {
	if spec, ok := tool.Lookup(c.Name); ok && spec.ReadOnly && !r.Error {
		return nil // another call was killed
	}
	err := l.noteShortages(ctx, c.ID)
	l.short.Lock()
	defer l.short.Unlock()
	if l.short.time.After(began) {
		if r.Text != "" {
			r.Text += "\n"
		}
		r.Text += l.short.text
	}
	return err
}

// ranOutOfDisk reports whether the machine's latest shortage was of disk space,
// and describes it.
func (l *Loop) ranOutOfDisk() (text string, ok bool) {
	l.short.Lock()
	defer l.short.Unlock()
	return l.short.text, l.short.disk
}
