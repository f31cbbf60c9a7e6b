package execd

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
)

func openLog(t *testing.T, dir string) *callLog {
	t.Helper()
	l, err := openCallLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.close() }) // some tests close the log themselves
	return l
}

func TestCallLogRemembers(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir)
	for _, id := range []string{"ran", "done", "acked"} {
		if err := l.start(id); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"done", "acked"} {
		if err := l.keep(id, &agentv1.ExecCompleted{CallId: id, Text: "text of " + id}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.forget("acked"); err != nil {
		t.Fatal(err)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}

	l = openLog(t, dir)
	want := []logLine{{'S', "ran"}, {'S', "done"}, {'S', "acked"}, {'A', "acked"}}
	if got := l.take(); !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	if got, err := l.result("done"); err != nil || got.GetText() != "text of done" {
		t.Errorf("result of done: %v, %v", got, err)
	}
	for _, id := range []string{"ran", "acked"} {
		if _, err := l.result(id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("result of %s: %v, want none", id, err)
		}
	}
}

func TestCallLogDropsALineCutShort(t *testing.T) {
	dir := t.TempDir()
	if err := openLog(t, dir).close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, logName), []byte("S one\nS tw"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := openLog(t, dir)
	if err := l.start("three"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil || string(b) != "S one\nS three\n" {
		t.Errorf("log is %q, %v", b, err)
	}
}

func TestCallLogIsOneProcessOnly(t *testing.T) {
	dir := t.TempDir()
	openLog(t, dir)
	if _, err := openCallLog(dir); !fault.Is(err, fault.KindConflict) {
		t.Errorf("second open: %v, want a conflict", err)
	}
}

func TestBootID(t *testing.T) {
	dir := t.TempDir()
	made, err := keepBootID(dir, "")
	if err != nil || made == "" {
		t.Fatalf("%q, %v", made, err)
	}
	for given, want := range map[string]string{"": made} {
		if got, err := keepBootID(dir, given); got != want || err != nil {
			t.Errorf("given %q: %q, %v; want %q", given, got, err, want)
		}
	}
	if got, err := keepBootID(dir, "boot-2"); got != "boot-2" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzParseCallLog(f *testing.F) {
	for _, seed := range []string{"", "S a\n", "S a\nA a\n", "S a", "X a\n", "S ../x\n", "S \n\nA b\n", "S a\x00\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, size := parseCallLog(text)
		if size > len(text) || size > 0 && text[size-1] != '\n' || bytes.IndexByte(text[size:], '\n') >= 0 {
			t.Fatalf("size %d of %q does not end a line", size, text)
		}
		var again strings.Builder
		for _, line := range lines {
			if !validCallID(line.id) || filepath.Base(line.id) != line.id {
				t.Fatalf("id %q", line.id)
			}
			again.WriteString(string(line.mark) + " " + line.id + "\n")
		}
		if got, _ := parseCallLog([]byte(again.String())); !slices.Equal(got, lines) {
			t.Fatalf("read again: %v, want %v", got, lines)
		}
	})
}
