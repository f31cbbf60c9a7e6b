package ripgrep

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/need"
)

// common are the arguments that exec-daemon's tools pass in every call.
var common = []string{"--no-config", "--color=never", "--no-messages", "--hidden", "--no-require-git", "--glob=!.git", "--null"}

// both runs rg and Main with the same arguments in the same folder. It returns
// their output, sorted by file, and their exit statuses.
func both(t *testing.T, dir string, args ...string) (want, got []string, wantStatus, gotStatus int) {
	t.Helper()
	t.Chdir(dir)
	args = append(slices.Clone(common), args...)
	cmd := exec.Command("rg", args...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir+"/config")
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir+"/config")
	theirs, _ := cmd.Output() // only the exit status matters
	var ours, complaint bytes.Buffer
	gotStatus = Main(args, &ours, &complaint)
	if gotStatus == exitWrong && !strings.Contains(strings.Join(args, " "), "wrong") {
		t.Logf("%q: %s", args, complaint.String())
	}
	return entries(theirs), entries(ours.Bytes()), cmd.ProcessState.ExitCode(), gotStatus
}

// entries returns the lines of unordered output, ordered by file.
func entries(out []byte) []string {
	out = bytes.ReplaceAll(out, []byte("\n--\n"), []byte("\n"))
	if !bytes.Contains(out, []byte("\n")) { // names only
		return slices.Sorted(strings.SplitSeq(string(out), "\x00"))
	}
	var all []string
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "inary file matches") && !strings.Contains(line, "WARNING: stopped searching binary file") {
			all = append(all, line)
		}
	}
	slices.SortStableFunc(all, func(a, b string) int {
		a, _, _ = strings.Cut(a, "\x00")
		b, _, _ = strings.Cut(b, "\x00")
		return strings.Compare(a, b)
	})
	return all
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tree is a repository with ignore files in several places.
func tree(t testing.TB) string {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		".gitignore":            "*.log\n!keep.log\n/build/\nnode_modules\n# comment\n\\#odd\ntrailing \ndocs/**/draft.md\n**/tmp\nvendor/**\n*.{o,a}\n[Tt]humbs.db\n\\!bang\n",
		".ignore":               "ignored-by-rg\n",
		".rgignore":             "!special.log\n",
		".git/config":           "[core]\n",
		".git/info/exclude":     "excluded\n",
		"config/git/ignore":     "*.global\n",
		"main.go":               "package main\n\nfunc main() {\n\tfmt.Println(\"Needle\")\n}\n",
		"a.log":                 "needle\n",
		"keep.log":              "needle\n",
		"special.log":           "needle\n",
		"#odd":                  "needle\n",
		"!bang":                 "needle\n",
		"trailing":              "needle\n",
		"build/out.txt":         "needle\n",
		"sub/build/out.txt":     "needle\n",
		"node_modules/x/i.js":   "needle\n",
		"sub/node_modules/i.js": "needle\n",
		"docs/a/b/draft.md":     "needle\n",
		"docs/draft.md":         "needle\n",
		"docs/final.md":         "a needle\nwith\nlines\nafter\nit\nand a needle\n",
		"x/tmp/y":               "needle\n",
		"vendor/v.go":           "needle\n",
		"lib.a":                 "needle\n",
		"lib.c":                 "int needle;\n",
		"Thumbs.db":             "needle\n",
		"ignored-by-rg":         "needle\n",
		"excluded":              "needle\n",
		"some.global":           "needle\n",
		".hidden/file":          "needle\n",
		"sub/.gitignore":        "!*.log\n/only-here\nnested/*.txt\n",
		"sub/b.log":             "needle\n",
		"sub/only-here":         "needle\n",
		"sub/deep/only-here":    "needle\n",
		"sub/nested/n.txt":      "needle\n",
		"sub/nested/n.md":       "needle\n",
		"repo/.git/HEAD":        "ref: refs/heads/main\n",
		"repo/c.log":            "needle\n",
		"repo/.gitignore":       "x.txt\n",
		"repo/x.txt":            "needle\n",
		"empty":                 "",
		"no-newline":            "one\nneedle",
		"crlf":                  "one\r\nneedle two\r\n",
		"binary":                "needle\x00needle\n",
		"late-binary":           "needle\n" + strings.Repeat("text\n", 40_000) + "\x00text\n",
		"utf8-bom":              "\xef\xbb\xbfneedle\n",
		"utf16le":               "\xff\xfen\x00e\x00e\x00d\x00l\x00e\x00\n\x00",
		"invalid":               "\xfe\xfd needle \xc3\n",
		"utf16-odd":             "\xff\xfe\xfd needle \xc3\n",
		"unicode":               "Größe NEEDLE näedle\n日本語 needle\n",
		"a b/c:1:d":             "needle\n",
		"Makefile":              "all: needle\n",
		"many":                  strings.Repeat("x\nneedle\ny\nz\nw\n", 1000),
		"wide":                  strings.Repeat("wide ", 10_000) + "needle\nnext\n",
		"test.py":               "def f():\n    \"\"\"needle\n    more\n    \"\"\"\n    return 1\n",
		"parens":                "func(a, b) {x: 1}\nfunc (a) {\n}\n",
		"tabs":                  "\tneedle\t\n\n\n\nneedle_two needle2\n",
	})
	if err := os.Symlink("main.go", filepath.Join(dir, "link.go")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub", filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSameAsRipgrep compares every option that the tools use with rg.
func TestSameAsRipgrep(t *testing.T) {
	need.Command(t, "rg")
	dir := tree(t)
	plain := []string{"--line-number", "--with-filename", "--no-heading"}
	patterns := []string{
		"needle", "Needle", "(?i)needle", "n.*e", "^needle$", "needle$", "^", "$", "x*", `\bneedle\b`, `ne{2}dle`, `needle|lines`, `\d`, `\w+_\w+`, `\s{2}`, `[^a-z\s\x{fffd}]`,
		`func\s*\(`, `\{x: 1\}`, `\.`, `日本`, `größe`, `(?i)GRÖSSE|größe`, `n(e)(?P<x>e)dle`, `\S+`, `\Wx`, `[[:upper:]]{3}`, `[\d_]`, `\p{Han}`, `nothing here`, `\t`, `a.b`, `\x6eeedle`, `[]x]`, `needle.`, `e$`, `\Aone`, `it\z`,
	}
	for _, pattern := range patterns {
		for _, mode := range [][]string{plain, {"--files-with-matches"}, {"--count", "--with-filename"}, append(slices.Clone(plain), "--context=1"), append(slices.Clone(plain), "--after-context=3", "--before-context=2"), append(slices.Clone(plain), "--ignore-case")} {
			args := append(slices.Clone(mode), "--regexp="+pattern, "--", "./")
			want, got, theirs, ours := both(t, dir, args...)
			if diff := cmp.Diff(want, got); diff != "" || theirs != ours {
				t.Errorf("%q: status %d, rg has %d\n%.2000s", args, ours, theirs, diff)
			}
		}
	}
	for _, pattern := range []string{"needle\n", `needle\s+more`, "one\nneedle", `a needle(.|\n)*and`, `(?s)lines.*it`, "needle", "^needle", "x\nneedle\ny", `\n\n`, `"""[^"]*"""`, "nothing\nhere"} {
		for _, flags := range [][]string{{"--multiline"}, {"--multiline", "--multiline-dotall"}, {"--multiline", "--context=1"}} {
			for _, mode := range [][]string{plain, {"--files-with-matches"}} {
				args := slices.Concat(mode, flags, []string{"--regexp=" + pattern, "--", "./"})
				want, got, theirs, ours := both(t, dir, args...)
				if diff := cmp.Diff(want, got); diff != "" || theirs != ours {
					t.Errorf("%q: status %d, rg has %d\n%.2000s", args, ours, theirs, diff)
				}
			}
		}
	}
	for _, flags := range [][]string{
		nil, {"--no-ignore"}, {"--type=go"}, {"--type=py"}, {"--type=md"}, {"--type=c"}, {"--type=make"}, {"--type-add=wanted:*.{go,py}", "--type=wanted"}, {"--type-add=wanted:*", "--type=wanted"},
		{"--type-add=wanted:n*", "--type=wanted"}, {"--glob=sub/**"}, {"--glob=!sub/**"}, {"--glob=!*.go"}, {"--glob=docs/*.md"}, {"--glob=/main.go"}, {"--glob=**/nested/*"}, {"--glob=a.log", "--glob=docs/a/**"}, {"--glob=x/tmp/*"}, {"--type=go", "--glob=main*"}, {"--glob=[a-d]*"}, {"--glob=*.{md,c}"}, {"--glob=sub/"},
	} {
		for _, path := range []string{"./", "./sub", "./repo", "./main.go", "./a.log", "./linked", dir, dir + "/sub", "./a b", "./docs/"} {
			args := slices.Concat(flags, []string{"--files", "--", path})
			want, got, theirs, ours := both(t, dir, args...)
			if diff := cmp.Diff(want, got); diff != "" || theirs != ours {
				t.Errorf("%q: status %d, rg has %d\n%.2000s", args, ours, theirs, diff)
			}
			args = slices.Concat(flags, plain, []string{"--regexp=needle", "--", path})
			if want, got, theirs, ours := both(t, dir, args...); !cmp.Equal(want, got) || theirs != ours {
				t.Errorf("%q: status %d, rg has %d\n%.2000s", args, ours, theirs, cmp.Diff(want, got))
			}
		}
	}
	// rg 13 does not apply rules that contain a slash if their ignore file is
	// above the searched folder; git does.
	var got bytes.Buffer
	if Main(append(slices.Clone(common), "--files", "./sub/nested"), &got, os.Stderr); got.String() != "./sub/nested/n.md\x00" {
		t.Errorf("below sub/.gitignore: %q", got.String())
	}
	for _, path := range []string{dir + "/sub", dir + "/repo"} { // the rules are above the searched folder
		want, got, _, _ := both(t, path, "--files", "--", "./")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("in %s:\n%s", path, diff)
		}
	}
}

// TestOrder compares the orders that need no sorting by the caller.
func TestOrder(t *testing.T) {
	need.Command(t, "rg")
	dir := tree(t)
	t.Chdir(dir)
	for _, order := range []string{"--sort=path", "--sortr=path"} {
		args := append(slices.Clone(common), order, "--files-with-matches", "--regexp=needle", "--", "./")
		want, err := exec.Command("rg", args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if Main(args, &got, os.Stderr); got.String() != string(want) {
			t.Errorf("%s: %q\nrg: %q", order, got.String(), want)
		}
	}
}

// TestRefused compares which arguments are refused, and whether the message
// gives the same reason as rg's.
func TestRefused(t *testing.T) {
	need.Command(t, "rg")
	t.Chdir(t.TempDir())
	for want, args := range map[string][]string{
		"regex parse error":            {"--regexp=(", "--", "./"},
		`is not allowed in a regex`:    {"--regexp=a\nb", "--", "./"},
		"unrecognized file type: nope": {"--type=nope", "--files", "./"},
		"error parsing glob":           {"--glob={a", "--files", "./"},
	} {
		var complaint bytes.Buffer
		if status := Main(append(slices.Clone(common), args...), &bytes.Buffer{}, &complaint); status != exitWrong || !strings.Contains(complaint.String(), want) {
			t.Errorf("%q: status %d, %s", args, status, complaint.String())
		}
		theirs, err := exec.Command("rg", append(slices.Clone(common), args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(theirs), want) {
			t.Errorf("%q: rg says %v %s", args, err, theirs)
		}
	}
	var complaint bytes.Buffer
	if status := Main([]string{"--pre=sh", "--regexp=x"}, &bytes.Buffer{}, &complaint); status != exitWrong || !strings.Contains(complaint.String(), "unrecognized flag") {
		t.Errorf("an option that rg has and Main has not: %d, %s", status, complaint.String())
	}
}

// TestRandomIgnoreFiles compares the results for random ignore files in a
// random tree.
func TestRandomIgnoreFiles(t *testing.T) {
	need.Command(t, "rg")
	parts := []string{"a", "b", "ab", "*", "**", "a*", "?", "[ab]", "!a", "/", "*.x", "{a,b}"}
	names := []string{"a", "b", "ab", "c.x", "a.x"}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		dir := t.TempDir()
		files := map[string]string{}
		for range 60 {
			path := ""
			for range 1 + r.IntN(3) {
				path += "/d" + names[r.IntN(len(names))]
			}
			files[path+"/"+names[r.IntN(len(names))]] = ""
			files["/"+names[r.IntN(len(names))]] = ""
		}
		for _, at := range []string{"", "/da", "/db/da"} {
			var lines strings.Builder
			for range 1 + r.IntN(6) {
				if r.IntN(4) == 0 {
					lines.WriteString("!")
				}
				if r.IntN(3) == 0 {
					lines.WriteString("/")
				}
				for i := range 1 + r.IntN(3) {
					if i > 0 {
						lines.WriteString("/")
					}
					lines.WriteString([]string{"", "d"}[r.IntN(2)] + parts[r.IntN(len(parts))])
				}
				lines.WriteString([]string{"\n", "/\n", " \n", "\r\n"}[r.IntN(4)])
			}
			files[at+"/"+ignoreFiles[r.IntN(3)]] = lines.String()
		}
		write(t, dir, files)
		want, got, _, _ := both(t, dir, "--files", "./")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d, rg -, ours +:\n%s", seed, diff)
			for name, text := range files {
				if text != "" {
					t.Logf("%s: %q", name, text)
				}
			}
		}
	}
}

// FuzzSearch compares matches in any text with rg.
func FuzzSearch(f *testing.F) {
	need.Command(f, "rg")
	f.Add("one\ntwo\n\nthree", "t.*", 1, false)
	f.Add("a\r\nb\xff", "[a-z]$", 0, true)
	f.Fuzz(func(t *testing.T, text, pattern string, around int, multiline bool) {
		if around < 0 || around > 3 || strings.ContainsAny(pattern, "\\\x00(") || strings.Contains(text, "--") || !ascii(text+pattern) || strings.Contains(text, "\x00") {
			return
		}
		dir := t.TempDir()
		write(t, dir, map[string]string{"f": text})
		args := []string{"--line-number", "--with-filename", "--no-heading", fmt.Sprintf("--context=%d", around), "--regexp", pattern, "--", "./"}
		if multiline {
			args = append([]string{"--multiline"}, args...)
		}
		want, got, theirs, ours := both(t, dir, args...)
		if theirs == exitWrong || ours == exitWrong {
			return // the syntaxes differ in what counts as an error
		}
		if diff := cmp.Diff(want, got); diff != "" || theirs != ours {
			t.Errorf("%q in %q: status %d, rg has %d\n%s", pattern, text, ours, theirs, diff)
		}
	})
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 126 || r < ' ' && r != '\n' && r != '\t' })
}
