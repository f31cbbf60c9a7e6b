package patch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/patch"
)

const example = `diff --git a/list.go b/list.go
index 1111111..2222222 100644
--- a/list.go
+++ b/list.go
@@ -10,3 +10,4 @@ func Len()
 a
-b
+c
+--- d
 e
diff --git a/gone.go b/gone.go
deleted file mode 100644
--- a/gone.go
+++ /dev/null
@@ -1,2 +0,0 @@
-a
-b
\ No newline at end of file
diff --git "a/\303\244 b.go" "b/\303\244 b.go"
new file mode 100644
--- /dev/null
+++ "b/\303\244 b.go"
@@ -0,0 +1 @@
+x
diff --git a/logo.png b/logo.png
Binary files a/logo.png and b/logo.png differ
`

func TestCheck(t *testing.T) {
	p, err := patch.Parse(example)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path        string
		first, last int
		old         bool
		want        string // part of the error; "" for none
	}{
		"All":        {path: "list.go", first: 10, last: 13},
		"Outside":    {path: "list.go", first: 14, last: 14, want: "which has the lines 10-13"},
		"PartlyOut":  {path: "list.go", first: 13, last: 14, want: "not within one part"},
		"Before":     {path: "list.go", first: 9, last: 10, want: "not within one part"},
		"OldSide":    {path: "list.go", first: 12, last: 12, old: true},
		"OldOutside": {path: "list.go", first: 13, last: 13, old: true, want: "10-12"},
		"Deleted":    {path: "gone.go", first: 1, last: 2, old: true},
		"DeletedNew": {path: "gone.go", first: 1, last: 1, want: "does not have the file"},
		"Quoted":     {path: "ä b.go", first: 1, last: 1},
		"NewOld":     {path: "ä b.go", first: 1, last: 1, old: true, want: "does not have the file"},
		"Unknown":    {path: "other.go", first: 1, last: 1, want: "does not have the file"},
		"NoPath":     {first: 1, last: 1, want: "does not have the file"},
		"Binary":     {path: "logo.png", first: 1, last: 1, want: "does not have the file"},
	} {
		t.Run(name, func(t *testing.T) {
			err := p.Check(c.path, c.first, c.last, c.old)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Parse understands what git itself prints.
func TestGitDiff(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	write("a b.txt", strings.Repeat("line\n", 30))
	write("moved", "1\n2\n3\n4\n5\n")
	git("add", "-A")
	git("commit", "-qm", "x")
	write("a b.txt", "new\n"+strings.Repeat("line\n", 29)+"last")
	git("mv", "moved", "there")
	write("there", "1\n2\n3\n4\n5\n6\n")
	git("add", "-A")
	p, err := patch.Parse(git("diff", "--cached", "-M"))
	if err != nil || len(p.Files) != 2 || len(p.Files[0].Hunks) != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := p.Check("a b.txt", 1, 4, false); err != nil {
		t.Error(err)
	}
	if err := p.Check("there", 6, 6, false); err != nil || p.Files[1].Old != "moved" {
		t.Errorf("%+v: %v", p.Files[1], err)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"Empty":    " \n",
		"Other":    "hello\n",
		"CutOff":   "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n",
		"TooMany":  "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-a\n a\n",
		"Header":   "diff --git a/x b/x\n@@ -1\n",
		"Negative": "diff --git a/x b/x\n@@ --1 +1 @@\n",
		"Huge":     "diff --git a/x b/x\n@@ -99999999999 +1 @@\n",
	} {
		if p, err := patch.Parse(text); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(example)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := patch.Parse(text)
		if err != nil {
			return
		}
		for _, file := range p.Files {
			for _, h := range file.Hunks {
				if file.New != "" && h.New.Count > 0 && h.New.First > 0 {
					if err := p.Check(file.New, h.New.First, h.New.First+h.New.Count-1, false); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
}
