package stream

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/fault"
)

// framePosition is the position of a frame in its run: the number of the event that
// produced it, and its index among the frames of that event, from 0.
type framePosition struct {
	seq int64
	sub int
}

func (p framePosition) after(q framePosition) bool {
	return p.seq > q.seq || p.seq == q.seq && p.sub > q.sub
}

// Minimum number of digits, so that ids also sort as text.
const (
	seqWidth  = 14
	subWidth  = 5
	markWidth = 8
)

// eventID formats a position in a run's stream as the id of an event. The id ends
// with a hash of the run's id, so that ids of different runs differ.
func eventID(p framePosition, runID string) string {
	return fmt.Sprintf("%0*d-%0*d-%s", seqWidth, p.seq, subWidth, p.sub, mark(runID))
}

func mark(runID string) string {
	sum := sha256.Sum256([]byte(runID))
	return hex.EncodeToString(sum[:])[:markWidth]
}

// lastEvent parses the id of the last frame that a client has seen. If the id
// is empty, it returns the position before the run's first frame.
func lastEvent(id string, run agent.Run) (framePosition, error) {
	if id == "" {
		return framePosition{seq: run.FirstSeq - 1}, nil
	}
	bad := fault.Invalid("is not an event of this run").Named("invalid_last_event_id").
		Hint("omit it to start at the run's first event").At("Last-Event-ID")
	part := strings.Split(id, "-")
	if len(part) != 3 || len(part[0]) != seqWidth || len(part[1]) != subWidth {
		return framePosition{}, bad
	}
	seq, err1 := strconv.ParseUint(part[0], 10, 63)
	sub, err2 := strconv.ParseUint(part[1], 10, 31)
	p := framePosition{int64(seq), int(sub)}
	if err1 != nil || err2 != nil || eventID(p, run.ID) != id || p.seq < run.FirstSeq || p.seq > run.LastSeq {
		return framePosition{}, bad
	}
	return p, nil
}
