package tool_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/guest/file"
	"aloft/internal/guest/pdf"
	"aloft/internal/guest/ripgrep"
	"aloft/internal/guest/tool"
)

// TestMain lets the test binary act as the process that reads a PDF.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "pdf-text" {
		os.Exit(pdf.Main(os.Args[2:], os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == ripgrep.Argument {
		os.Exit(ripgrep.Main(os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// document returns a PDF with a line of text on each page.
func document(pages ...string) []byte {
	var b bytes.Buffer
	var at []int
	object := func(format string, args ...any) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n", len(at))
		fmt.Fprintf(&b, format, args...)
		b.WriteString("\nendobj\n")
	}
	b.WriteString("%PDF-1.4\n")
	object("<< /Type /Catalog /Pages 2 0 R >>")
	var kids []string
	for i := range pages {
		kids = append(kids, fmt.Sprintf("%d 0 R", 4+2*i))
	}
	object("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for i, text := range pages {
		object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", 5+2*i)
		content := fmt.Sprintf("BT /F1 24 Tf 72 700 Td (%s) Tj ET", text)
		object("<< /Length %d >>\nstream\n%s\nendstream", len(content), content)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, o := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, xref)
	return b.Bytes()
}

func TestReadOfAPDF(t *testing.T) {
	ws := tool.Workspace{Dir: t.TempDir()}
	put(t, filepath.Join(ws.Dir, "a.pdf"), string(document("first page", "second page", "third page", "fourth page")))
	out := use(t, tool.Read(ws), map[string]any{"path": "a.pdf", "offset": 2, "limit": 2})
	if out.Error || !strings.Contains(out.Text, "[page 2]\nsecond page\n[page 3]\nthird page\n[pages 2 to 3 of 4; continue with offset 4]\n") {
		t.Fatalf("%q", out.Text)
	}
	if s := out.Call.GetReadToolCall().GetResult().GetSuccess(); s.GetTotalLines() != 4 || s.GetMediaType() != "application/pdf" || len(s.GetRanges()) != 2 {
		t.Errorf("%v", s)
	}
	if _, err := exec.LookPath("pdftoppm"); err != nil {
		if !strings.Contains(out.Text, "install poppler-utils") {
			t.Errorf("without poppler: %q", out.Text)
		}
	} else if len(out.Pictures) != 2 || !bytes.HasPrefix(out.Pictures[0].GetData(), []byte{0xff, 0xd8}) {
		t.Errorf("%d pictures; %q", len(out.Pictures), out.Text)
	}
	if out = use(t, tool.Read(ws), map[string]any{"path": "a.pdf", "offset": 5}); !out.Error || !strings.Contains(out.Text, "there are 4 pages") {
		t.Errorf("beyond the end: %q", out.Text)
	}
}

func TestReadMakesALargeImageSmaller(t *testing.T) {
	ws := tool.Workspace{Dir: t.TempDir()}
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 3136, 1000))); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(ws.Dir, "a.png"), b.String())
	out := use(t, tool.Read(ws), map[string]any{"path": "a.png"})
	if out.Error || len(out.Pictures) != 1 || !strings.Contains(out.Text, "3136×1000 pixels; shown with its longer side as 1568") {
		t.Fatalf("%q", out.Text)
	}
	if conf, err := png.DecodeConfig(bytes.NewReader(out.Pictures[0].GetData())); err != nil || conf.Width != 1568 || conf.Height != 500 {
		t.Errorf("%+v, %v", conf, err)
	}
}

// TestEditsRefuseWhatChanged changes a file in several ways without the model's
// knowledge. An edit must then be refused.
func TestEditsRefuseWhatChanged(t *testing.T) {
	ws := tool.Workspace{Dir: t.TempDir(), Seen: file.NewSeen()}
	path := filepath.Join(ws.Dir, "f")
	replace := func(from, to string) tool.Outcome {
		return use(t, tool.StrReplace(ws), map[string]any{"path": "f", "old_string": from, "new_string": to})
	}
	must := func(out tool.Outcome, refused bool) {
		t.Helper()
		if out.Error != refused || refused && !strings.Contains(out.Text, "Read it again") {
			t.Errorf("refused %v: %q", refused, out.Text)
		}
	}
	put(t, path, "one\n")
	must(replace("one", "two"), false) // the model has never read the file
	must(replace("two", "three"), false)
	put(t, path, "three, and more\n")
	must(replace("three", "four"), true)
	must(use(t, tool.Write(ws), map[string]any{"path": "f", "contents": "mine"}), true)
	use(t, tool.Read(ws), map[string]any{"path": path, "limit": 1})
	must(replace("three", "four"), false)
	if err := os.Symlink("f", filepath.Join(ws.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	put(t, path, "four again\n")
	must(use(t, tool.StrReplace(ws), map[string]any{"path": "link", "old_string": "four", "new_string": "5"}), true)
	use(t, tool.Read(ws), map[string]any{"path": "link"})
	must(replace("four", "five"), false)
	// A file with the same contents counts as unchanged, whatever its times are.
	put(t, path, "five again\n")
	must(replace("five", "six"), false)
	use(t, tool.Delete(ws), map[string]any{"path": "f"})
	put(t, path, "new\n")
	must(use(t, tool.Write(ws), map[string]any{"path": "f", "contents": "over"}), false)
	put(t, filepath.Join(ws.Dir, "n.ipynb"), `{"cells":[],"nbformat":4}`)
	use(t, tool.Read(ws), map[string]any{"path": "n.ipynb"})
	put(t, filepath.Join(ws.Dir, "n.ipynb"), `{"cells": [],"nbformat":4}`)
	must(use(t, tool.EditNotebook(ws), map[string]any{"target_notebook": "n.ipynb", "cell_idx": 0, "is_new_cell": true, "cell_language": "sql", "new_string": "x"}), true)
}
