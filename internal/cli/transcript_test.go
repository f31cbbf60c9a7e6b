package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/client"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestTranscript compares the output for journals to a pipe and to a terminal.
func TestTranscript(t *testing.T) {
	journals, err := filepath.Glob("testdata/transcript/*.ndjson")
	if err != nil || len(journals) == 0 {
		t.Fatalf("no journals: %v", err)
	}
	for _, journal := range journals {
		for view, live := range map[string]bool{"pipe": false, "terminal": true} {
			name := strings.TrimSuffix(journal, ".ndjson")
			t.Run(filepath.Base(name)+"_"+view, func(t *testing.T) {
				var out bytes.Buffer
				o := &Output{out: &out, err: &out, live: live, color: live}
				show(t, journal, NewTranscript(o), live)
				golden(t, name+"."+view+".golden", out.Bytes())
			})
		}
	}
}

func show(t *testing.T, journal string, tr *Transcript, tick bool) {
	t.Helper()
	f, err := os.Open(journal)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 0; lines.Scan(); n++ {
		var e client.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		tr.Show(e)
		if tick {
			tr.Tick(n, e.Time.Add(1200*time.Millisecond))
		}
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); rewrite it with -update:\n%s", file, diff)
	}
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 340 * time.Millisecond: "340 ms", 1500 * time.Millisecond: "1.5 s", 62 * time.Second: "1m02s", 2*time.Hour + 5*time.Minute: "2h05m",
	} {
		if got := Took(d); got != want {
			t.Errorf("Took(%v) = %q; want %q", d, got, want)
		}
	}
}

func TestProblems(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		exit int
		hint string
	}{
		"NoKey":       {&client.Error{Status: 401, Message: "no"}, Denied, "aloft login"},
		"Forbidden":   {&client.Error{Status: 403, Message: "no"}, Denied, ""},
		"NoAgent":     {&client.Error{Status: 404, Code: "agent_not_found", Message: "no"}, NotFound, "agent list"},
		"NoSecret":    {&client.Error{Status: 404, Code: "secret_not_found", Message: "no"}, NotFound, "secret list"},
		"NotFound":    {&client.Error{Status: 404, Message: "no"}, NotFound, ""},
		"Bad":         {&client.Error{Status: 400, Message: "no"}, Usage, ""},
		"Busy":        {&client.Error{Status: 409, Code: "agent_busy", Message: "no"}, Failure, "agent stop"},
		"Server":      {&client.Error{Status: 500, Message: "no", RequestID: "r7"}, Failure, "r7"},
		"Help":        {&client.Error{Status: 409, Message: "no", HelpURL: "https://h"}, Failure, "https://h"},
		"Unreachable": {&client.UnreachableError{URL: "http://x"}, Unreachable, "aloft serve"},
	} {
		p := ProblemOf(tt.err)
		if p.Exit != tt.exit || !strings.Contains(p.Hint, tt.hint) || (tt.hint == "") != (p.Hint == "") {
			t.Errorf("%s: exit %d, hint %q; want %d and %q", name, p.Exit, p.Hint, tt.exit, tt.hint)
		}
	}
}

func TestFailSaysWhatToDo(t *testing.T) {
	err := &client.Error{Status: 409, Code: "agent_busy", Message: "the agent \x1b[1mworks"}
	for view, tt := range map[string]struct {
		json bool
		want string
	}{
		"person":  {false, "error: the agent works\nhint: wait until its run ends, or stop it with `aloft agent stop`\n"},
		"program": {true, `{"error":{"code":"agent_busy","message":"the agent \u001b[1mworks","hint":"wait until its run ends, or stop it with ` + "`aloft agent stop`" + `"}}` + "\n"},
	} {
		var out bytes.Buffer
		New(&bytes.Buffer{}, &out, Options{JSON: tt.json}).Fail(err)
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("%s: words differ (-want +got):\n%s", view, diff)
		}
	}
}
