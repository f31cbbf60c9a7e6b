package shell

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// heap returns the size of the heap in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestFlood runs a command that writes as fast as a pipe allows, gigabytes per
// second, without a line feed.
func TestFlood(t *testing.T) {
	s := open(t, func(c *Config) { c.MaxOutput = 1 << 20 })
	before := heap()
	res, err := s.Run(t.Context(), Command{Text: "cat /dev/zero", Timeout: time.Second}, func(string, string) {})
	if err != nil || res.End != TimedOut {
		t.Fatalf("%+v, %v", res.End, err)
	}
	if grown := int64(heap()) - int64(before); grown > 8<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	st, err := os.Stat(res.OutputFile)
	if err != nil || st.Size() != 1<<20 || !res.OutputFull || len(res.Stdout) > DefaultThreshold+100 {
		t.Errorf("%d bytes shown, file %v, %v", len(res.Stdout), st, err)
	}
	t.Logf("%d MB in a second", res.OutputBytes>>20)
	if res := run(t, s, "echo fine"); res.Stdout != "fine\n" {
		t.Errorf("afterwards: %+v", res)
	}
}

// TestFloodInTheBackground runs such a command in the background. Its output
// goes only to a file.
func TestFloodInTheBackground(t *testing.T) {
	s := open(t, func(c *Config) { c.MaxOutput = 16 << 20 })
	j := start(t, s, "read -r x; exec cat /dev/zero")
	input(t, s, j.PID, "go\n", false)
	var most int64
	emptied := 0
	for last := int64(0); emptied < 3; {
		eventually(t, "the file is emptied", func() bool {
			st, err := os.Stat(j.OutputFile)
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, st.Size())
			shrank := st.Size() < last
			last = st.Size()
			return shrank
		})
		emptied++
	}
	// The file exceeds its limit at most by the output between two checks.
	if most > 4<<30 {
		t.Errorf("it grew to %d bytes", most)
	}
	before := heap()
	all, _, err := s.Await(t.Context(), Wait{PIDs: []int{j.PID}, Pattern: regexp.MustCompile("never"), Timeout: 100 * time.Millisecond})
	if err != nil || !all[0].Running || len(all[0].Output) > 4*DefaultThreshold {
		t.Errorf("%d bytes, %v", len(all[0].Output), err)
	}
	if grown := int64(heap()) - int64(before); grown > 8<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// TestOutputWithoutALineFeed prints one line of 64 MB.
func TestOutputWithoutALineFeed(t *testing.T) {
	s := open(t)
	res := run(t, s, "head -c 67108864 /dev/zero | tr '\\0' x")
	if res.ExitCode != 0 || res.OutputBytes != 64<<20 || len(res.Stdout) > DefaultThreshold+100 || !strings.HasSuffix(res.Stdout, "xxx") {
		t.Errorf("%d bytes, %d shown, exit code %d", res.OutputBytes, len(res.Stdout), res.ExitCode)
	}
	j := start(t, s, "head -c 67108864 /dev/zero | tr '\\0' x; exec sleep 300")
	if a := await(t, s, "^x{100}", j.PID); len(a.Matched) != maxMatched || len(a.Output) > 2*DefaultThreshold {
		t.Errorf("%d bytes matched, %d shown", len(a.Matched), len(a.Output))
	}
}

// TestWhatIgnoresSIGTERM checks that a command that ignores SIGTERM is killed
// with all processes that it has started.
func TestWhatIgnoresSIGTERM(t *testing.T) {
	s := open(t)
	mark := strconv.Itoa(os.Getpid()) + "7531"
	ctx, cancel := context.WithCancel(t.Context())
	res, err := s.Run(ctx, Command{
		Text:    "trap '' TERM HUP INT; for i in $(seq 60); do sleep " + mark + " & done; echo up; while :; do wait; sleep 1; done",
		Timeout: time.Minute,
	}, func(string, string) { cancel() })
	if err != nil || res.End != Cancelled || !strings.Contains(res.Stdout, "up") {
		t.Fatalf("%+v, %v", res, err)
	}
	eventually(t, "none of them runs", func() bool { return exec.Command("pgrep", "-f", "sleep "+mark).Run() != nil })
	if res := run(t, s, "echo fine"); res.Stdout != "fine\n" {
		t.Errorf("afterwards: %+v", res)
	}
}

// TestHogOfDescriptors opens as many files as allowed in the session's own
// process.
func TestHogOfDescriptors(t *testing.T) {
	s := open(t)
	run(t, s, "ulimit -n 256; for i in $(seq 300); do exec {fd}</dev/null; done")
	eventually(t, "the session can be used again", func() bool {
		res := run(t, s, "echo fine")
		return res.Stdout == "fine\n"
	})
	// A command that breaks the session ends it, and a new session replaces it.
	if res := run(t, s, "ls /dev/null"); res.Stdout != "/dev/null\n" {
		t.Logf("the session stays out of descriptors: %+v", res)
		run(t, s, "exit")
		if res := run(t, s, "ls /dev/null"); res.Stdout != "/dev/null\n" {
			t.Errorf("after a new start: %+v", res)
		}
	}
}
