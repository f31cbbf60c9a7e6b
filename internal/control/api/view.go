package api

import (
	"bytes"
	"encoding/json"

	"aloft/internal/agent"
)

// A view is one client's way through a run's frames: it leaves out those that
// the client has seen, and says the run's status at the top and when it changes.
type view struct {
	runID  string
	last   place // that the client has seen
	fold   *projector
	status agent.Status // as the client will know it
	opened bool
	lastID string // of the last frame that the client has
	ended  bool
}

// newView begins at the frame after last. A run that works shows its status of
// now. One that has ended is replayed, and a client that saw its end at the top
// might not wait for the rest: it is shown the status at the place it resumes.
func newView(run agent.Run, last place, all branches) *view {
	lastID := ""
	if last.seq >= run.FirstSeq {
		lastID = eventID(last, run.ID)
	}
	v := &view{runID: run.ID, last: last, lastID: lastID, fold: newProjector(run.AgentID, run.ID, all), status: agent.Creating}
	if !run.Status.Ended() {
		v.status = run.Status
	}
	return v
}

// show appends the frames of an event that the client has not seen.
func (v *view) show(e agent.Event, out *bytes.Buffer) {
	if e.RunID != v.runID || v.ended {
		return
	}
	for sub, f := range v.fold.frames(e) {
		at := place{e.Seq, sub}
		seen := !at.after(v.last)
		switch {
		case f.event == "status":
			v.change(f.status, seen, out)
		case f.event == "done":
			v.open(out)
			writeFrame(out, eventID(at, v.runID), f.event, f.data)
			v.ended = true
		case !seen:
			v.open(out)
			id := eventID(at, v.runID)
			v.lastID = id
			if f.event != "" {
				writeFrame(out, id, f.event, f.data)
			}
			if f.twin != nil {
				writeFrame(out, id, "interaction_update", f.twin)
			}
		}
	}
}

// change takes a status of the journal.
func (v *view) change(to agent.Status, seen bool, out *bytes.Buffer) {
	if seen {
		v.status = to
		return
	}
	v.open(out)
	if v.status != to {
		v.status = to
		v.writeStatus(out)
	}
}

// open writes the status at the top, once.
func (v *view) open(out *bytes.Buffer) {
	if !v.opened {
		v.opened = true
		v.writeStatus(out)
	}
}

func (v *view) writeStatus(out *bytes.Buffer) {
	writeFrame(out, "", "status", statusJSON{RunID: v.runID, Status: string(v.status)})
}

type statusJSON struct {
	RunID  string `json:"runId"`
	Status string `json:"status"`
}

// writeFrame writes one server-sent event. Data is one line, because JSON
// escapes line breaks.
func writeFrame(out *bytes.Buffer, id, event string, data any) {
	line, err := marshal(data)
	if err != nil { // what a machine or a model sent is not JSON after all
		line, _ = json.Marshal(errorInnerJSON{Code: "internal", Message: "this event cannot be shown"})
	}
	if id != "" {
		out.WriteString("id: " + id + "\n")
	}
	out.WriteString("event: " + event + "\ndata: ")
	out.Write(line)
	out.WriteString("\n\n")
}
