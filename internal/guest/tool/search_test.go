package tool_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"aloft/internal/guest/tool"
	"aloft/internal/guest/tool/tooltest"
	"aloft/internal/need"
	"aloft/internal/wire/agentv1"
)

// forest creates n small files. A tenth of them contain the word needle.
func forest(t testing.TB, n int) tool.Workspace {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Join(dir, fmt.Sprintf("d%d/e%d", i/1000, i/100%10)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		text := "package x\n\nfunc f() {}\n"
		if i%10 == 0 {
			text += "// needle\n"
		}
		ext := []string{"go", "txt", "py", "js"}[i%4]
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("d%d/e%d/f%d.%s", i/1000, i/100%10, i, ext)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return tool.Workspace{Dir: dir}
}

// TestGrepPages checks that the pages together are the complete output in one
// order: for little output, which Grep sorts, and for much output, which rg
// sorts.
func TestGrepPages(t *testing.T) {
	need.Command(t, "rg")
	ws := forest(t, 1000)
	put(t, filepath.Join(ws.Dir, "d0/large"), strings.Repeat("a needle in a line that is rather long, so that there is much of it\n", 120_000))
	for _, glob := range []string{"*.{go,py}", "*"} {
		var all []string
		for offset := 0; len(all) < 250; {
			out := use(t, tool.Grep(ws), map[string]any{"pattern": "needle", "glob": glob, "head_limit": 37, "offset": offset})
			s := out.Call.GetGrepToolCall().GetResult().GetSuccess()
			lines := strings.Split(strings.TrimSpace(s.GetOutput()), "\n")
			if len(lines) != int(s.GetLines()) || s.GetTruncated() != strings.Contains(out.Text, "continue with offset") {
				t.Fatalf("%d lines, said %d, truncated %v", len(lines), s.GetLines(), s.GetTruncated())
			}
			all = append(all, lines...)
			offset += len(lines)
			if !s.GetTruncated() {
				break
			}
		}
		whole := use(t, tool.Grep(ws), map[string]any{"pattern": "needle", "glob": glob, "head_limit": len(all)})
		if want := strings.Join(all, "\n") + "\n"; whole.Call.GetGrepToolCall().GetResult().GetSuccess().GetOutput() != want {
			t.Errorf("glob %s: the pages are not the whole", glob)
		}
		if dup := slices.Compact(slices.Sorted(slices.Values(all))); len(dup) != len(all) {
			t.Errorf("glob %s: %d lines, %d of them different", glob, len(all), len(dup))
		}
	}
}

func TestGrepIsBounded(t *testing.T) {
	need.Command(t, "rg")
	ws := tool.Workspace{Dir: t.TempDir()}
	put(t, filepath.Join(ws.Dir, "wide"), strings.Repeat("x", 50<<20)+"\n")
	put(t, filepath.Join(ws.Dir, "many"), strings.Repeat("x\n", 5_000_000))
	for _, args := range []map[string]any{{"pattern": "x"}, {"pattern": "x", "path": "wide"}, {"pattern": "x", "-C": 3}, {"pattern": ".*", "multiline": true}} {
		if out := use(t, tool.Grep(ws), args); out.Error || len(out.Text) > 40_000 {
			t.Errorf("%v: %d bytes, error %v", args, len(out.Text), out.Error)
		}
	}
}

func TestSearchStopsWithItsContext(t *testing.T) {
	need.Command(t, "rg")
	ws := forest(t, 100)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user said so"))
	for _, hand := range []tool.Tool{tool.Grep(ws), tool.Glob(ws)} {
		out := hand.Run(ctx, tooltest.Call(t, hand.Name, map[string]string{"Grep": `{"pattern": "x"}`, "Glob": `{"glob_pattern": "*"}`}[hand.Name]), nil)
		if !out.Error || !strings.Contains(out.Text, "the user said so") {
			t.Errorf("%s: %q", hand.Name, out.Text)
		}
	}
}

func TestGrepOfAFolderOutsideTheWorkspace(t *testing.T) {
	need.Command(t, "rg")
	other := t.TempDir()
	put(t, filepath.Join(other, "f"), "needle\n")
	out := use(t, tool.Grep(tool.Workspace{Dir: t.TempDir()}), map[string]any{"pattern": "needle", "path": other})
	if out.Text != other+"/f:1:needle\n" {
		t.Errorf("got %q", out.Text)
	}
}

func TestGlobIsBoundedAndCounts(t *testing.T) {
	need.Command(t, "rg")
	ws := forest(t, 1000)
	out := use(t, tool.Glob(ws), map[string]any{"glob_pattern": "*"})
	s := out.Call.GetGlobToolCall().GetResult().GetSuccess()
	if s.GetTotalFiles() != 1000 || len(s.GetFiles()) != 200 || !strings.Contains(out.Text, "the 200 newest of 1000 files") {
		t.Errorf("%d files, %d listed", s.GetTotalFiles(), len(s.GetFiles()))
	}
}

// FuzzGrep searches files with any text for any pattern.
func FuzzGrep(f *testing.F) {
	need.Command(f, "rg")
	f.Add("needle\n--\n./x\x00y", "n.*", int32(1))
	f.Add("a\r\nb\xff", "[", int32(0))
	f.Fuzz(func(t *testing.T, text, pattern string, around int32) {
		if !utf8.ValidString(pattern) || around < 0 || around > 3 {
			return
		}
		ws := tool.Workspace{Dir: t.TempDir()}
		put(t, filepath.Join(ws.Dir, "a"), text)
		put(t, filepath.Join(ws.Dir, "b"), text)
		use(t, tool.Grep(ws), map[string]any{"pattern": pattern, "-C": around})
	})
}

// FuzzStrReplace checks that the reverse replacement undoes a replacement.
func FuzzStrReplace(f *testing.F) {
	f.Add("one two", "one", "1")
	f.Add("a\r\nb", "a\nb", "c")
	f.Fuzz(func(t *testing.T, text, old, put1 string) {
		if !utf8.ValidString(old) || !utf8.ValidString(put1) {
			return
		}
		ws := tool.Workspace{Dir: t.TempDir()}
		path := filepath.Join(ws.Dir, "f")
		put(t, path, text)
		out := use(t, tool.StrReplace(ws), map[string]any{"path": "f", "old_string": old, "new_string": put1})
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case out.Error && string(got) != text:
			t.Errorf("an error changed %q to %q", text, got)
		case !out.Error && strings.Count(text, old) == 1 && string(got) != strings.Replace(text, old, put1, 1):
			t.Errorf("%q became %q", text, got)
		}
	})
}

func BenchmarkSearch(b *testing.B) {
	rg := need.Command(b, "rg")
	ws := forest(b, 100_000)
	bare := func(b *testing.B, args ...string) {
		for b.Loop() {
			cmd := exec.Command(rg, args...)
			cmd.Dir = ws.Dir
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	}
	hand := func(b *testing.B, h tool.Tool, args string) {
		call := tooltest.Call(b, h.Name, args)
		for b.Loop() {
			if out := h.Run(b.Context(), call, func(*agentv1.ToolCallDelta) {}); out.Error {
				b.Fatal(out.Text)
			}
		}
	}
	for range 2 {
		b.Run("rg-needle", func(b *testing.B) { bare(b, "needle") })
		b.Run("Grep-needle", func(b *testing.B) { hand(b, tool.Grep(ws), `{"pattern": "needle"}`) })
		b.Run("rg-none", func(b *testing.B) {
			for b.Loop() {
				cmd := exec.Command(rg, "nothing of the kind")
				cmd.Dir = ws.Dir
				_ = cmd.Run() // finds nothing
			}
		})
		b.Run("Grep-none", func(b *testing.B) { hand(b, tool.Grep(ws), `{"pattern": "nothing of the kind"}`) })
		b.Run("rg-files", func(b *testing.B) { bare(b, "--files") })
		b.Run("Glob-go", func(b *testing.B) { hand(b, tool.Glob(ws), `{"glob_pattern": "*.go"}`) })
		b.Run("rg-files-go-newest", func(b *testing.B) { bare(b, "--files", "-g", "*.go", "--sortr", "modified") })
		for _, fd := range []string{"fd", "fdfind"} { // the name in Debian and others
			if path, err := exec.LookPath(fd); err == nil {
				b.Run("fd-go", func(b *testing.B) {
					for b.Loop() {
						cmd := exec.Command(path, "--glob", "*.go")
						cmd.Dir = ws.Dir
						if err := cmd.Run(); err != nil {
							b.Fatal(err)
						}
					}
				})
				break
			}
		}
		b.Run("Glob-all", func(b *testing.B) { hand(b, tool.Glob(ws), `{"glob_pattern": "**"}`) })
	}
}
