package pid1

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestUsageOfThisProcess(t *testing.T) {
	t.Parallel()
	table, err := readProcessTable()
	if err != nil {
		t.Fatal(err)
	}
	own := table.below(os.Getpid())
	if own.memory < 1<<20 || own.processes < 1 || table.all().memory < own.memory {
		t.Errorf("%+v of %+v", own, table.all())
	}
	if list := disks("/", "/", "/no/such"); len(list) != 1 || list[0].size <= 0 || list[0].used > list[0].size {
		t.Errorf("%+v", list)
	}
	if memoryLimit() <= 0 || processors() < 1 || oomKills() < 0 {
		t.Errorf("%d, %d, %d", memoryLimit(), processors(), oomKills())
	}
}

func FuzzParseUsage(f *testing.F) {
	f.Add([]byte("1 (a b) S 0 1 1 0 -1 4194560 1 2 3 4 50 60 0 0 20 0 1 0 5 1000 77 0"))
	f.Add([]byte("1 (a) S 9223372036854775807 1 1 0 -1 4194560 1 2 3 4 9223372036854775807 9223372036854775807 0 0 20 0 1 0 5 1 9223372036854775807"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if u := parseUsage(line); u.cpu < 0 || u.memory < 0 || u.processes < 0 {
			t.Errorf("%+v", u)
		}
		if keyed(line, "oom_kill") < 0 {
			t.Error("a negative count")
		}
	})
}

func FuzzMark(f *testing.F) {
	f.Add([]byte("A=b\x00ALOFT_PROCESS=web\x00C=d\x00"))
	f.Fuzz(func(t *testing.T, env []byte) {
		if m := mark(env); m != "" && !strings.Contains(string(env), markVariable+"="+m) {
			t.Errorf("%q", m)
		}
	})
}

// FuzzMetadata checks that everything that can be set can be read, by its path
// and by listing each folder.
func FuzzMetadata(f *testing.F) {
	f.Add("agent/id", "agent/name", "x")
	f.Add("a", "a/b", "")
	f.Fuzz(func(t *testing.T, one, two, value string) {
		var m metadata
		values := map[string]string{one: value, two: value}
		if m.set(values) != nil {
			if len(m.below("")) != 0 {
				t.Error("half of it was set")
			}
			return
		}
		if got := m.below(""); !maps.Equal(got, values) {
			t.Errorf("%v", got)
		}
		for path := range values {
			if got, ok := m.text(path); !ok || got != value {
				t.Errorf("%q: %q", path, got)
			}
			at := ""
			for part := range strings.SplitAfterSeq(path, "/") {
				list, ok := m.text(strings.TrimSuffix(at, "/"))
				if !ok || !slices.Contains(strings.Split(list, "\n"), part) {
					t.Errorf("%q is not listed in %q: %q", part, at, list)
				}
				at += part
			}
		}
	})
}

func TestOutput(t *testing.T) {
	t.Parallel()
	var o output
	o.write(strings.Repeat("ä", maxPrinted))
	o.write("end")
	text, next, skipped := o.read(0)
	if len(text) > maxPrinted || !utf8.ValidString(text) || !strings.HasSuffix(text, "äend") || next != 2*maxPrinted+3 || skipped != next-int64(len(text)) {
		t.Errorf("%d bytes, next %d, skipped %d", len(text), next, skipped)
	}
	if text, again, skipped := o.read(next); text != "" || again != next || skipped != 0 {
		t.Errorf("%q, %d, %d", text, again, skipped)
	}
	if text, _, _ := o.read(next + 100); text != "" {
		t.Errorf("%q", text)
	}
}
