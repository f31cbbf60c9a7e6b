package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"aloft/internal/control/execclient"
	"aloft/internal/conversation"
	"aloft/internal/redact"
)

// BenchmarkTrue measures a Shell call of the command true, from the control
// plane's client to a real exec-daemon process, without the acknowledgement.
// The baseline, in the same run, is a process that runs true.
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
	if _, _, err := e.Call(ctx, bashCall("warm", "true"), nil); err != nil { // by now bash has read the profile
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
	// The baseline of the connection is a round trip without a tool.
	b.Run("Write", func(b *testing.B) {
		call(b, conversation.ToolCall{Name: "Write", Args: []byte(`{"path":"empty","contents":""}`)})
	})
}

// medianOf runs work b.N times, each followed by after, which is not measured.
// It reports the median and the 99th percentile.
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
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs/p99")
}

// BenchmarkAtOnce measures a hundred concurrent Shell calls over one stream.
// Their commands share a session, so they run one after another. The baselines
// are a hundred processes that run true, concurrently and one after another.
func BenchmarkAtOnce(b *testing.B) {
	const calls = 100
	all := func(b *testing.B, one func(i int) error) {
		medianOf(b, func(int) error {
			var group errgroup.Group
			for i := range calls {
				group.Go(func() error { return one(i) })
			}
			return group.Wait()
		}, func() error { return nil })
	}
	b.Run("ForkExec", func(b *testing.B) {
		path, err := exec.LookPath("true")
		if err != nil {
			b.Fatal(err)
		}
		all(b, func(int) error { return exec.Command(path).Run() })
	})
	b.Run("InTurn", func(b *testing.B) {
		medianOf(b, func(int) error {
			return exec.Command("bash", "-c", "for ((i = 0; i < 100; i++)); do /bin/true; done").Run()
		}, func() error { return nil })
	})
	e := start(b).client()
	b.Run("Shell", func(b *testing.B) {
		all(b, func(i int) error {
			id := fmt.Sprintf("%d-%d", time.Now().UnixNano(), i)
			res, _, err := e.Call(context.Background(), bashCall(id, "/bin/true"), nil)
			if err != nil || res.Error {
				return fmt.Errorf("%+v: %w", res, err)
			}
			return e.Ack(context.Background(), id)
		})
	})
}

// BenchmarkOutput measures a Shell call whose command prints 100 MB. The output
// is streamed, with and without 200 secrets that both ends redact. The baseline
// reads the same output from a pipe.
func BenchmarkOutput(b *testing.B) {
	const command = "head -c 100000000 /dev/zero | tr '\\0' x"
	b.Run("Pipe", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.Command("bash", "-c", command)
			var n counter
			cmd.Stdout = &n
			if err := cmd.Run(); err != nil || n != 100_000_000 {
				b.Fatal(n, err)
			}
		}
	})
	secrets := map[string]string{}
	for i := range 200 {
		secrets[fmt.Sprintf("SECRET_%d", i)] = "ghp_" + rand.Text() + rand.Text()[:10]
	}
	for name, e := range map[string]*execclient.Calls{
		"Shell": start(b).client(),
		"Secrets": start(b, func(d *daemon) {
			d.env = append(d.env, "CLOUD_AGENT_INJECTED_SECRET_NAMES="+strings.Join(slices.Sorted(maps.Keys(secrets)), ","))
			for name, value := range secrets {
				d.env = append(d.env, name+"="+value)
			}
			d.more = []string{"--secret-redaction-enabled"}
		}).client(execclient.Redact(redact.New(secrets))),
	} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				id := fmt.Sprintf("%d-%d", time.Now().UnixNano(), i)
				res, _, err := e.Call(context.Background(), bashCall(id, command), func(execclient.Delta) {})
				if err != nil || res.Error {
					b.Fatalf("%+v, %v", res, err)
				}
				if err := e.Ack(context.Background(), id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// BenchmarkRead reads 100 lines in the middle of a file of 50 MB that is in the
// page cache.
func BenchmarkRead(b *testing.B) {
	d := start(b)
	e := d.client()
	const line = "a line of fifty bytes, as those of a log may be it\n"
	path := filepath.Join(d.workspace, "large")
	if err := os.WriteFile(path, []byte(strings.Repeat(line, 1_000_000)), 0o600); err != nil {
		b.Fatal(err)
	}
	b.Run("sed", func(b *testing.B) {
		medianOf(b, func(int) error { return exec.Command("sed", "-n", "500000,500099p;500099q", path).Run() }, func() error { return nil })
	})
	b.Run("Read", func(b *testing.B) {
		medianOf(b, func(i int) error {
			id := fmt.Sprintf("%d-%d", time.Now().UnixNano(), i)
			res, _, err := e.Call(context.Background(), conversation.ToolCall{ID: id, Name: "Read", Args: []byte(`{"path":"large","offset":500000,"limit":100}`)}, nil)
			if err != nil || res.Error {
				return fmt.Errorf("%+v: %w", res, err)
			}
			return e.Ack(context.Background(), id)
		}, func() error { return nil })
	})
}
