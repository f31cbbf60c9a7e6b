package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"aloft/internal/conversation"
)

// BenchmarkTrue measures the command true: as a process of its own, and as a
// call of Shell from the control plane's client to exec-daemon in a process of
// its own, whose acknowledgement is not measured. The yardstick is in the same run.
func BenchmarkTrue(b *testing.B) {
	b.Run("ForkExec", func(b *testing.B) {
		path, err := exec.LookPath("true")
		if err != nil {
			b.Fatal(err)
		}
		medianOf(b, func(int) error { return exec.Command(path).Run() }, func() error { return nil })
	})
	d := start(b)
	e := d.client()
	ctx := context.Background()
	if _, _, err := e.Call(ctx, bashCall("warm", "true"), nil); err != nil { // the profile is read
		b.Fatal(err)
	}
	call := func(b *testing.B, c conversation.ToolCall) {
		var sent []string
		medianOf(b, func(i int) error {
			c.ID = fmt.Sprintf("%d-%d", time.Now().UnixNano(), i)
			res, _, err := e.Call(ctx, c, nil)
			if err != nil || res.Error {
				return fmt.Errorf("%+v: %w", res, err)
			}
			sent = append(sent, c.ID)
			return nil
		}, func() error { return e.Ack(ctx, sent[len(sent)-1]) })
	}
	b.Run("Shell", func(b *testing.B) { call(b, bashCall("", "true")) })
	b.Run("Shell/Process", func(b *testing.B) { call(b, bashCall("", "/bin/true")) })
	// What the way there and back costs by itself.
	b.Run("Write", func(b *testing.B) {
		call(b, conversation.ToolCall{Name: "Write", Args: []byte(`{"path":"empty","contents":""}`)})
	})
}

// medianOf runs work b.N times, with after each time what is not measured, and
// reports the median.
func medianOf(b *testing.B, work func(i int) error, after func() error) {
	b.Helper()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		begun := time.Now()
		if err := work(i); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
		b.StopTimer()
		if err := after(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/median")
}
