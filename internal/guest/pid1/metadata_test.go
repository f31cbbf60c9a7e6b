package pid1

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// FuzzMetadata checks that every value that can be set can be read, both by its
// path and through the lists of folders.
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
