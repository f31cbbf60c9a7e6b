package rulefile_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/tools/txtar"

	"golang.org/x/sys/unix"

	"aloft/internal/guest/rulefile"
	"aloft/internal/rule"
)

var update = flag.Bool("update", false, "write the wanted text of each layout")

// TestCorpus reads the rules of each repository in testdata and compares what a
// model is told with the file "want" of the layout. The lines before the first
// file describe the work, and the files that a text archive cannot contain:
//
//	repos A B        the folders of the repositories; by default the workspace
//	flag no-agents   leave out AGENTS.md and CLAUDE.md
//	flag cloud       include the notes for background agents
//	window N         the context window, in tokens
//	prompt TEXT      the prompt of the run
//	touch A B        the files that the calls of one reply use
//	own FROM TEXT    a rule of the team or of the user
//	link A -> B      a symbolic link
//	fifo A           a named pipe
//	fill A N         a file of N bytes
//	binary A         a file with bytes that are not text
//	many A N         N files with rules in the folder A
//	deep A N         N nested folders, A the outermost, with a rule in the innermost
//	quoted A "…"     a file with the contents of a quoted Go string
//	hide A           a file that .cursorignore would hide
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d layouts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			l := lay(t, a)
			got := l.tell(t)
			if *update {
				a.Files = append(slices.DeleteFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" }), txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := ""
			for _, f := range a.Files {
				if f.Name == "want" {
					want = string(f.Data)
				}
			}
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// layout is a repository of the corpus on disk, and the work in it.
type layout struct {
	dir     string
	repos   []string
	options rulefile.Options
	room    int
	prompt  string
	touched [][]string
	own     []rule.Rule
}

func lay(t *testing.T, a *txtar.Archive) *layout {
	t.Helper()
	l := &layout{dir: t.TempDir(), repos: []string{""}, room: 80 << 10}
	l.options = rulefile.Options{Workspace: l.dir, AgentFiles: true}
	for _, f := range a.Files {
		if f.Name != "want" {
			l.write(t, f.Name, string(f.Data))
		}
	}
	for line := range strings.Lines(string(a.Comment)) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := strings.Fields(rest)
		switch verb {
		case "", "#":
		case "repos":
			l.repos = words
		case "flag":
			l.options.AgentFiles = l.options.AgentFiles && rest != "no-agents"
			l.options.CloudNotes = l.options.CloudNotes || rest == "cloud"
		case "window":
			l.room = number(t, words[0]) / 10 * 4
		case "prompt":
			l.prompt = rest
		case "touch":
			l.touched = append(l.touched, words)
		case "own":
			from, text, _ := strings.Cut(rest, " ")
			l.own = append(l.own, rule.Rule{Source: rule.File, From: rule.From(from), When: rule.Always, Text: text})
		case "link":
			l.parent(t, words[0])
			check(t, os.Symlink(words[2], filepath.Join(l.dir, words[0])))
		case "fifo":
			l.parent(t, words[0])
			check(t, syscall.Mkfifo(filepath.Join(l.dir, words[0]), 0o600))
		case "fill":
			l.write(t, words[0], strings.Repeat("x", number(t, words[1])))
		case "quoted":
			name, text, _ := strings.Cut(rest, " ")
			text, err := strconv.Unquote(text)
			check(t, err)
			l.write(t, name, text)
		case "binary":
			l.write(t, words[0], "\x7fELF\x00\x01\xff\xfe")
		case "many":
			for n := range number(t, words[1]) {
				l.write(t, fmt.Sprintf("%s/%05d.mdc", words[0], n), fmt.Sprintf("---\nalwaysApply: true\n---\nRule %d.\n", n))
			}
		case "deep":
			l.write(t, words[0]+strings.Repeat("/d", number(t, words[1]))+"/deep.mdc", "---\nalwaysApply: true\n---\nDeep.\n")
		case "hide":
			l.options.Check = func(file string) error {
				if file == filepath.Join(l.dir, rest) {
					return os.ErrPermission
				}
				return nil
			}
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	return l
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	check(t, err)
	return n
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l *layout) parent(t *testing.T, name string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(filepath.Join(l.dir, name)), 0o755))
}

func (l *layout) write(t *testing.T, name, text string) {
	t.Helper()
	l.parent(t, name)
	check(t, os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o644))
}

// read reads the folders' rules and validates the result as the control plane
// does.
func (l *layout) read(t *testing.T, folders []rule.Folder) rule.Set {
	t.Helper()
	said, err := rulefile.Read(t.Context(), l.options, folders)
	check(t, err)
	if again := rule.Admit(folders, said); len(again.Rules) != len(said.Rules) {
		t.Errorf("%d rules of %d are admitted: %+v", len(again.Rules), len(said.Rules), again.LeftOut)
	}
	return rule.Admit(folders, said)
}

// tell returns the messages for a model that works in the repository.
func (l *layout) tell(t *testing.T) string {
	t.Helper()
	var start []rule.Folder
	done := map[string]bool{}
	for _, r := range l.repos {
		start = append(start, rule.Folder{Repository: r, Path: r})
		done[r] = true
	}
	all := l.read(t, start)
	all.Rules = append(slices.Clone(l.own), all.Rules...)
	var told rule.Set
	var b strings.Builder
	for _, touched := range append([][]string{nil}, l.touched...) {
		var folders []rule.Folder
		for _, root := range l.repos {
			for _, file := range touched {
				for _, f := range rule.Nested(root, file) {
					if !done[f] {
						done[f] = true
						folders = append(folders, rule.Folder{Repository: root, Path: f})
					}
				}
			}
		}
		more := l.read(t, folders)
		all.Rules, all.LeftOut = append(all.Rules, more.Rules...), append(all.LeftOut, more.LeftOut...)
		m, ok := rule.Next(all, told, rule.Work{Prompt: l.prompt, Touched: touched}, l.room)
		if len(touched) > 0 {
			fmt.Fprintf(&b, "==== after %s ====\n", strings.Join(touched, " "))
		}
		if !ok {
			b.WriteString("(nothing)\n")
			continue
		}
		m.Workspace = "/workspace"
		told.Rules, told.LeftOut = append(told.Rules, m.Rules...), append(told.LeftOut, m.LeftOut...)
		b.WriteString(strings.ReplaceAll(m.String(), l.dir, "/workspace"))
	}
	return b.String()
}

// BenchmarkRead reads 200 rules and 100 skills of a repository with 100,000
// files, and formats them for a model: warm, and with the files on disk only.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	var guides []string
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
		return name
	}
	for n := range 200 {
		guides = append(guides, write(fmt.Sprintf(".cursor/rules/%d.mdc", n), fmt.Sprintf("---\nglobs: src/%d/**/*.go\n---\nRule %d. %s\n", n, n, strings.Repeat("Use tabs. ", 100))))
	}
	for n := range 100 {
		guides = append(guides, write(fmt.Sprintf(".cursor/skills/s%d/SKILL.md", n), fmt.Sprintf("---\nname: s%d\ndescription: Skill %d\n---\nSteps.\n", n, n)))
	}
	for n := range 100_000 {
		write(fmt.Sprintf("src/%d/x/f%d.go", n/500, n), "")
	}
	read := func(b *testing.B) {
		all, err := rulefile.Read(b.Context(), rulefile.Options{Workspace: dir, AgentFiles: true}, []rule.Folder{{}})
		if err != nil || len(all.Rules) != 300 {
			b.Fatal(len(all.Rules), err)
		}
		m, _ := rule.Next(all, rule.Set{}, rule.Work{Touched: []string{"src/7/x/y.go"}}, 80<<10)
		if len(m.Rules) != 101 || m.String() == "" {
			b.Fatalf("%d rules", len(m.Rules))
		}
	}
	b.Run("warm", func(b *testing.B) {
		for b.Loop() {
			read(b)
		}
	})
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			for _, name := range guides {
				if err := evict(name); err != nil {
					b.Fatal(err)
				}
			}
			b.StartTimer()
			read(b)
		}
	})
}

// evict removes a file's contents from the kernel's page cache.
func evict(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil { // only pages that are on disk can be removed
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
