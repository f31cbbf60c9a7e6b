package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"aloft/internal/mcp"
)

// FuzzLines checks that only JSON lines of a server's output reach the
// protocol, and that the other lines go to its log.
func FuzzLines(f *testing.F) {
	for _, said := range []string{"{}\n", "Welcome!\n{\"a\":1}\n", "[1]\r\n{", "\x00\xff\n\n{}{}\n", strings.Repeat("x", 100<<10) + "\n{}\n"} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		var log bytes.Buffer
		l := newLines(io.NopCloser(bytes.NewReader(said)), &log)
		out, err := io.ReadAll(l)
		if err != nil || l.broken() != nil {
			t.Fatal(err, l.broken())
		}
		for line := range bytes.Lines(out) {
			if !json.Valid(line) || !bytes.HasSuffix(line, []byte("\n")) {
				t.Fatalf("%q is passed on", line)
			}
		}
		if len(out)+log.Len() > len(said)+1 {
			t.Fatalf("of %d bytes %d are passed on, and %d logged", len(said), len(out), log.Len())
		}
	})
}

// FuzzAssigned checks that each line of a file either assigns a variable or is
// ignored.
func FuzzAssigned(f *testing.F) {
	f.Add("export A=\"b\"\n# c\n=d\nE='\n\x00F=g\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, v := range assigned(text) {
			if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.ContainsAny(v, "\x00\n") {
				t.Fatalf("%q", v)
			}
		}
	})
}

// FuzzResult checks that the text of a server's result that a model gets is
// bounded.
func FuzzResult(f *testing.F) {
	for _, said := range []string{
		`{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"eA=="}]}`, `{"content":[{"type":"resource","resource":null}]}`,
		`{"content":[{"type":"resource_link","uri":"x\u001b"}],"structuredContent":[1]}`, `{"content":null,"isError":true}`, `{"content":[{"type":"audio"}]}`,
	} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		var r sdk.CallToolResult
		if json.Unmarshal(said, &r) != nil {
			return
		}
		if text := resultOf("s", &r).Tool().Text; len(text) > mcp.MaxText+200 || strings.ContainsAny(text, "\x00\x1b\u202e") {
			t.Fatalf("%q", text)
		}
	})
}
