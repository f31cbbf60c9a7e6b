package shell

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

func TestLongOutputGoesToAFile(t *testing.T) {
	s := open(t)
	res, err := s.Run(t.Context(), Command{Text: "seq 1000; seq 2000 2100 >&2; printf žš", Timeout: time.Minute, Threshold: 1000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(res.Stdout) + len(res.Stderr); n > 1000+200 {
		t.Errorf("the result holds %d bytes", n)
	}
	if !strings.HasPrefix(res.Stdout, "1\n2\n") || !strings.HasSuffix(res.Stdout, "999\n1000\nžš") || !strings.Contains(res.Stdout, "bytes left out …]") {
		t.Errorf("stdout %q", res.Stdout)
	}
	if !strings.HasPrefix(res.Stderr, "2000\n") || !strings.HasSuffix(res.Stderr, "2100\n") {
		t.Errorf("stderr %q", res.Stderr)
	}
	whole, err := os.ReadFile(res.OutputFile)
	if err != nil || int64(len(whole)) != res.OutputBytes || res.OutputFull {
		t.Errorf("file of %d bytes (err %v), output of %d, full %v", len(whole), err, res.OutputBytes, res.OutputFull)
	}
}

func TestEndlessOutputIsBounded(t *testing.T) {
	s := open(t, func(c *Config) { c.MaxOutput = 1 << 20 })
	var told int
	before := heap()
	res, err := s.Run(t.Context(), Command{Text: "yes 0123456789", Timeout: 2 * time.Second}, func(stdout, stderr string) {
		told += len(stdout) + len(stderr)
	})
	if err != nil || res.End != TimedOut {
		t.Fatalf("%+v, %v", res, err)
	}
	if !res.OutputFull || res.OutputBytes < 2<<20 {
		t.Errorf("full %v after %d bytes", res.OutputFull, res.OutputBytes)
	}
	if st, err := os.Stat(res.OutputFile); err != nil || st.Size() != 1<<20 {
		t.Errorf("file: %v, %v", st, err)
	}
	if told > deltaTotal+4*deltaBytes {
		t.Errorf("%d bytes of deltas", told)
	}
	if grown := int64(heap()) - int64(before); grown > 16<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func TestDeltasComeWhileTheCommandRuns(t *testing.T) {
	s := open(t)
	var all strings.Builder
	seen := false
	res, err := s.Run(t.Context(), Command{Timeout: 2 * time.Minute, Text: "printf 'ready\\xc5'; printf '\\xbe'; while [ ! -e go ]; do sleep 0.01; done; echo done"}, func(stdout, _ string) {
		if !utf8.ValidString(stdout) {
			t.Errorf("delta %q", stdout)
		}
		all.WriteString(stdout)
		if !seen && strings.Contains(all.String(), "ready") {
			seen = true
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, "go"), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || res.End != Finished {
		t.Fatalf("%+v, %v", res, err)
	}
	if all.String() != "readyždone\n" || res.Stdout != all.String() {
		t.Errorf("deltas %q, result %q", all.String(), res.Stdout)
	}
}

func TestOutputFileThatCannotBeMade(t *testing.T) {
	s := open(t)
	if err := os.RemoveAll(s.cfg.OutputDir); err != nil {
		t.Fatal(err)
	}
	res, err := s.Run(t.Context(), Command{Text: "seq 100000", Timeout: time.Minute}, nil)
	if err != nil || res.ExitCode != 0 || !res.OutputFull || res.OutputFile != "" {
		t.Errorf("%+v, %v", res.OutputFull, err)
	}
}

func TestSessionsSideBySide(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		s := open(t)
		wg.Go(func() {
			for j := range 10 {
				if res := run(t, s, fmt.Sprintf("n=$((n+1)); echo %d $n", i)); res.Stdout != fmt.Sprintf("%d %d\n", i, j+1) {
					t.Errorf("session %d: %q", i, res.Stdout)
				}
			}
		})
	}
	wg.Wait()
}

func TestManyCallsLeaveNothing(t *testing.T) {
	s := open(t)
	run(t, s, "true")
	count := func() (files, descriptors int) {
		a, _ := os.ReadDir(s.dir)
		b, _ := os.ReadDir("/proc/self/fd")
		return len(a), len(b)
	}
	run(t, s, "true")
	files, fds := count()
	for range 50 {
		run(t, s, "echo x")
	}
	if f, d := count(); f > files || d > fds+2 {
		t.Errorf("%d files and %d descriptors, before %d and %d", f, d, files, fds)
	}
}

// FuzzOutput compares a result with the output, which is written in pieces of
// any size.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("hello"), []byte("\xff\xc5"), 10, 3)
	f.Add([]byte(strings.Repeat("ž", 100)), []byte("x"), 64, 7)
	f.Fuzz(func(t *testing.T, stdout, stderr []byte, threshold, piece int) {
		if threshold < 1 || threshold > 1<<12 || piece < 1 {
			return
		}
		o := newOutput(t.TempDir(), "m", threshold, 1<<20)
		for which, text := range [][]byte{stdout, stderr} {
			for p := text; len(p) > 0; {
				n := min(piece, len(p))
				o.write(which, p[:n])
				p = p[n:]
			}
		}
		var res Result
		o.result(&res)
		o.release()
		if !utf8.ValidString(res.Stdout) || !utf8.ValidString(res.Stderr) {
			t.Error("not UTF-8")
		}
		total := len(stdout) + len(stderr)
		if res.OutputBytes != int64(total) || (res.OutputFile != "") != (total > threshold) {
			t.Errorf("%d bytes in file %q, of %d with threshold %d", res.OutputBytes, res.OutputFile, total, threshold)
		}
		if total <= threshold && (res.Stdout != valid(stdout) || res.Stderr != valid(stderr)) {
			t.Errorf("%q and %q became %q and %q", stdout, stderr, res.Stdout, res.Stderr)
		}
		if res.OutputFile != "" {
			whole, err := os.ReadFile(res.OutputFile)
			if err != nil || !bytes.Equal(whole, append(bytes.Clone(stdout), stderr...)) {
				t.Errorf("the file holds %q (err %v)", whole, err)
			}
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add("1 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20")
	f.Add("")
	f.Add("1 (")
	f.Fuzz(func(_ *testing.T, stat string) { _, _, _ = parseStat(stat) })
}

func TestParseStat(t *testing.T) {
	p, state, ok := parseStat("77 (odd ) R 9 (name) S 5 6 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9")
	if !ok || state != "S" || p.parent != 5 || p.session != 7 || p.start != 4242 {
		t.Errorf("%+v %q %v", p, state, ok)
	}
}

func TestPoolsOfReadersStopAtClose(t *testing.T) {
	s := open(t)
	res := run(t, s, "sleep 300 & echo $!")
	if !res.Held {
		t.Fatal("nothing holds the output")
	}
	run(t, s, "kill $!")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("Close hangs")
	}
}
