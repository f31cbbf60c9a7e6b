package patch_test

import (
	"testing"

	"aloft/internal/patch"
)

func TestPlace(t *testing.T) {
	p, err := patch.Parse(example)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path     string
		line     int
		old      bool
		other    int
		oldName  string
		isAbsent bool
	}{
		"Unchanged":    {path: "list.go", line: 10, other: 10, oldName: "list.go"},
		"Added":        {path: "list.go", line: 11, oldName: "list.go"},
		"Shifted":      {path: "list.go", line: 13, other: 12, oldName: "list.go"},
		"ShiftedOld":   {path: "list.go", line: 12, old: true, other: 13, oldName: "list.go"},
		"Removed":      {path: "list.go", line: 11, old: true, oldName: "list.go"},
		"DeletedFile":  {path: "gone.go", line: 2, old: true, oldName: "gone.go"},
		"NewFile":      {path: "ä b.go", line: 1},
		"OutsideHunk":  {path: "list.go", line: 14, isAbsent: true},
		"UnknownFile":  {path: "x", line: 1, isAbsent: true},
		"WithoutAName": {line: 1, isAbsent: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, other, ok := p.Place(c.path, c.line, c.old)
			if ok == c.isAbsent || other != c.other || f.Old != c.oldName {
				t.Errorf("got %q %d %v", f.Old, other, ok)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	p, err := patch.Parse(example + "diff --git a/cut.go b/cut.go\n--- a/cut.go\n+++ b/cut.go\n@@ -5 +4,0 @@\n-x\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path        string
		first, last int
		want        bool
	}{
		"Added": {"list.go", 11, 11, true}, "PartlyAdded": {"list.go", 12, 20, true}, "NextToRemoved": {"list.go", 10, 10, true},
		"UnchangedInHunk": {"list.go", 13, 13, false}, "Outside": {"list.go", 20, 30, false}, "OtherFile": {"x", 1, 1, false},
		"BeforeCut": {"cut.go", 4, 4, true}, "AfterCut": {"cut.go", 5, 5, true}, "FarFromCut": {"cut.go", 6, 7, false},
	} {
		if got := p.Changes(c.path, c.first, c.last); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !p.Has("gone.go") || !p.Has("ä b.go") || p.Has("x") || p.Has("") {
		t.Error("the files of the patch")
	}
}
