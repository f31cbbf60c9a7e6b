package api

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"aloft/internal/agent"
)

// BenchmarkReplay measures the cost of a reconnecting client: projecting a run
// of 10,000 events to its end.
func BenchmarkReplay(b *testing.B) {
	const n = 10_000
	events := make([]agent.Event, 0, n)
	for i := range n {
		events = append(events, agent.Event{Seq: int64(i + 1), RunID: "run-1", Time: time.Unix(int64(i), 0), Body: &agent.TextDelta{Text: "some words of a reply"}})
	}
	run := agent.Run{ID: "run-1", Status: agent.Running, FirstSeq: 1, LastSeq: n}
	for _, last := range []int64{0, n} {
		b.Run(fmt.Sprintf("after=%d", last), func(b *testing.B) {
			for b.Loop() {
				var out bytes.Buffer
				v := newView(run, framePosition{seq: last, sub: 1}, branches{})
				for _, e := range events {
					v.show(e, &out)
				}
			}
		})
	}
}
