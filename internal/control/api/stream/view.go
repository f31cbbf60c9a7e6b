package stream

import (
	"bytes"
	"encoding/json"

	"aloft/internal/agent"
	"aloft/internal/control/api/agents"
	"aloft/internal/control/api/rest"
)

// A view is one client's position in a run's frames. It skips the frames that
// the client has seen, and sends the run's status at the start and when it
// changes.
type view struct {
	runID    string
	last     framePosition // the last frame that the client has seen
	fold     *projector
	status   agent.Status // the last status that the client was sent
	opened   bool
	lastID   string // id of the last frame that the client has seen
	hasEnded bool
}

// newView starts at the frame after last. For an active run, the first status
// is the current one. For an ended run, it is the status at the position where
// the client resumes: otherwise a client might see the end first and
// disconnect.
func newView(run agent.Run, last framePosition, all agents.Branches) *view {
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

// ReplayRun returns the frames of a run from its start.
func ReplayRun(run agent.Run, events []agent.Event) []byte {
	var out bytes.Buffer
	v := newView(run, framePosition{}, agents.Branches{})
	for _, e := range events {
		v.show(e, &out)
	}
	return out.Bytes()
}

// show appends the frames of an event that the client has not seen.
func (v *view) show(e agent.Event, out *bytes.Buffer) {
	if e.RunID != v.runID || v.hasEnded {
		return
	}
	for sub, f := range v.fold.frames(e) {
		at := framePosition{e.Seq, sub}
		seen := !at.after(v.last)
		switch {
		case f.event == "status":
			v.change(f.status, seen, out)
		case f.event == "done":
			v.open(out)
			writeFrame(out, eventID(at, v.runID), f.event, f.data)
			v.hasEnded = true
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

// change handles a status event of the journal.
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

// open writes the status if it has not been written yet.
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

// writeFrame writes one server-sent event. The data is a single line, because
// the JSON encoder escapes line breaks.
func writeFrame(out *bytes.Buffer, id, event string, data any) {
	line, err := rest.Marshal(data)
	if err != nil { // a machine or model sent invalid JSON
		line, _ = json.Marshal(rest.ErrorInnerJSON{Code: "internal", Message: "this event cannot be shown"})
	}
	if id != "" {
		out.WriteString("id: " + id + "\n")
	}
	out.WriteString("event: " + event + "\ndata: ")
	out.Write(line)
	out.WriteString("\n\n")
}
