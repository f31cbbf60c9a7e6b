package journal

import (
	"aloft/internal/agent"
	"aloft/internal/fault"
)

// defaultQuota limits the journal's bytes of data from a machine in one run. It
// suffices for thousands of screenshots, and for far more text than a run
// produces.
const defaultQuota = 1 << 30

// EventWeight is roughly what an event takes in the journal besides its
// content, in bytes.
const EventWeight = 128

// guestBytes estimates how many bytes an event takes in the journal if its
// content comes from a machine. It returns 0 for events of the server, a person
// or a model.
func guestBytes(b agent.Body) int64 {
	switch b := b.(type) {
	case *agent.Within:
		return guestBytes(b.Body)
	case *agent.CallDelta:
		return EventWeight + int64(len(b.Stdout)) + int64(len(b.Stderr))
	case *agent.BootStep:
		return EventWeight + int64(len(b.Name)) + int64(len(b.Detail))
	case *agent.CallDone:
		n := EventWeight + int64(len(b.Text)) + int64(len(b.Output))
		for _, i := range b.Images {
			n += int64(len(i.Data)) * 4 / 3 // base64
		}
		return n
	case *agent.HookRan, *agent.Notice, *agent.MachineReady, *agent.MachineLost, *agent.MachineOutOfMemory, *agent.MachineDiskFull, *agent.SubagentsFound, *agent.RulesFound, *agent.RulesGiven, *agent.Committed, *agent.Pushed, *agent.CallJudged, *agent.ChecksEnded:
		_, data, err := agent.Encode(b)
		if err != nil {
			return EventWeight
		}
		return EventWeight + int64(len(data))
	}
	return 0
}

// admit rejects events that would exceed the run's journal quota. A run that is
// ending is exempt.
func (r *Recorder) admit(bodies []agent.Body) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.guest.used
	var more int64
	for _, b := range bodies {
		more += guestBytes(b)
	}
	quota := r.guest.limit
	if more == 0 || r.guest.lifted || all+more <= quota {
		return nil
	}
	return fault.Exhausted("the machine's output has filled the run's journal quota of %d MiB", quota>>20).Named("journal_limit").
		Hint("check the last tool calls with `aloft agent logs`, then send a follow-up: each run has its own quota")
}

// Finish lifts the quota, so that the end of a run can be journaled.
func (r *Recorder) Finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.guest.lifted = true
}
