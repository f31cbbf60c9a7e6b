package patch_test

import (
	"slices"
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

func TestChanged(t *testing.T) {
	p, err := patch.Parse(example + "diff --git a/cut.go b/cut.go\n--- a/cut.go\n+++ b/cut.go\n@@ -5 +4,0 @@\n-x\n@@ -20,3 +18,4 @@\n a\n b\n+c\n d\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []patch.Lines{{Path: "list.go"}, {"list.go", 10, 12}, {Path: "gone.go"}, {Path: "ä b.go"}, {"ä b.go", 1, 1}, {Path: "cut.go"}, {"cut.go", 4, 5}, {"cut.go", 20, 20}}
	if got := p.Changed(); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
