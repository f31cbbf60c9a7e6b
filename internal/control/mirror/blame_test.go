package mirror

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseBlame(t *testing.T) {
	one, two := strings.Repeat("1", 40), strings.Repeat("2", 64)
	text := two + " 5 5 1\nauthor filename x\nsummary " + one + " 1 1 1\nboundary\nfilename a\n" +
		one + " 1 1 3\nauthor A\nfilename a\n" + one + " 9 4 1\nfilename a\n" + two + " 6 9 1\nfilename a\n"
	want := []Lines{{First: 1, Last: 4, Commit: one}, {First: 5, Last: 5, Commit: two}, {First: 9, Last: 9, Commit: two}}
	if diff := cmp.Diff(want, parseBlame(text, false)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[:1], parseBlame(text, true)); diff != "" {
		t.Errorf("without the boundary: %s", diff)
	}
}

func FuzzParseBlame(f *testing.F) {
	f.Add(strings.Repeat("1", 40)+" 1 1 3\nboundary\nfilename a\n", true)
	f.Fuzz(func(t *testing.T, text string, bounded bool) {
		last := 0
		for _, l := range parseBlame(text, bounded) {
			if l.First < last {
				t.Errorf("line %d comes after line %d", l.First, last)
			}
			last = l.First
		}
	})
}
