package lsp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFrame(t *testing.T) {
	for text, want := range map[string]string{
		"Content-Length: 2\r\n\r\n{}":                                      "{}",
		"content-length:2\nContent-Type: application/vscode-jsonrpc\n\n{}": "{}",
		"Content-Length: 0\r\n\r\n":                                        "",
		"":                                                                 "error: EOF",
		"Content-Length: 5\r\n\r\n{}":                                      "error: unexpected EOF",
		"Content-Length: 5":                                                "error: unexpected EOF",
		"Content-Length: -1\r\n\r\n":                                       "error: malformed header",
		"Content-Length: 99999999999\r\n\r\n":                              "error: message too long",
		"Content-Length: 99999999999999999999\r\n\r\n":                     "error: malformed header",
		"X: 1\r\n\r\n{}":                                                   "error: malformed header",
		"no header\r\n\r\n":                                                "error: malformed header",
		strings.Repeat("A", 1<<20):                                         "error: malformed header",
		strings.Repeat("A: b\r\n", 1<<16):                                  "error: malformed header",
	} {
		body, err := readFrame(bufio.NewReaderSize(strings.NewReader(text), maxHeader))
		got := string(body)
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%.60q: %.80q, want %q", text, got, want)
		}
	}
}

// FuzzReadFrame checks that reading ends for any input, and that every accepted
// frame equals the frame that a sender would make from its message.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}Content-Length: 1\r\n\r\n1"))
	f.Add([]byte("Content-Length: 99999999999\r\n\r\n"))
	f.Add([]byte("A\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReaderSize(bytes.NewReader(data), maxHeader)
		for {
			body, err := readFrame(in)
			if err != nil {
				return
			}
			if len(body) > len(data) {
				t.Fatalf("%d bytes out of %d", len(body), len(data))
			}
			again, err := readFrame(bufio.NewReader(bytes.NewReader(frame(body))))
			if err != nil || !bytes.Equal(again, body) {
				t.Fatalf("%q came back as %q, %v", body, again, err)
			}
		}
	})
}

// FuzzSaid passes arbitrary output of servers and linters to the code that
// parses it.
func FuzzSaid(f *testing.F) {
	f.Add([]byte(`{"uri":"file:///a.go","diagnostics":[{"range":{"start":{"line":1}},"message":"m","code":{"value":1}}]}`))
	f.Add([]byte(`[{"filename":"/a.py","message":"m","code":"F401","location":{"row":1,"column":2},"end_location":{"row":1,"column":3}}]`))
	f.Add([]byte(`[{"filePath":"/a.js","messages":[{"ruleId":"no-undef","severity":2,"message":"m","line":1,"column":2}]}]`))
	f.Add([]byte("# x\nvet: ./a.go:1:2: undefined: y\n{\"x\":{\"printf\":[{\"posn\":\"a.go:1:2\",\"message\":\"m\"}]}}"))
	f.Add([]byte("/a.js:2\n(\n ^\nSyntaxError: no\n"))
	f.Add([]byte("a.sh: line 3: syntax error"))
	f.Add([]byte("1 (a) b) S 0 7 7 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 9 1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var found []Diagnostic
		for _, read := range []func(a, b []byte) []Diagnostic{readGoVet, readRuff, readESLint, readShellcheck, readPython,
			func(a, b []byte) []Diagnostic { return readBash("/a", a, b) }, func(a, b []byte) []Diagnostic { return readNode("/a", a, b) }} {
			found = append(found, read(data, nil)...)
			found = append(found, read(nil, data)...)
		}
		s := &server{linter: languages[0].kinds[0].linters[0], diagnostics: map[string][]Diagnostic{}, reported: map[string]bool{"/a.go": false}, working: map[string]bool{}}
		s.publish(data)
		s.progress(data)
		for _, method := range []string{"workspace/configuration", "client/registerCapability", "x"} {
			if answer, err := s.handle(method, data); err == nil {
				if _, err := json.Marshal(answer); err != nil {
					t.Errorf("%s: %v", method, err)
				}
			}
		}
		for _, d := range append(found, s.diagnostics["/a.go"]...) {
			if d = d.bound(); len(d.Message) > maxMessage+20 || d.StartLine < 1 || d.StartColumn < 1 {
				t.Errorf("%+v", d)
			}
		}
		readStat(data)
	})
}

func TestPathsOfURIs(t *testing.T) {
	for _, path := range []string{"/a/b.go", "/with blank/ä%20#?.go", "/a:b"} {
		if got := pathOf(uri(path)); got != path {
			t.Errorf("%q came back as %q", path, got)
		}
	}
	if got := pathOf("http://x/y"); got != "" {
		t.Errorf("not a file: %q", got)
	}
}

func TestRootOf(t *testing.T) {
	dir := tree(t, "-- go.mod --\n-- a/go.mod --\n-- a/b/x.go --\n-- c/x.go --\n")
	for path, want := range map[string]string{"a/b/x.go": "a", "c/x.go": "", "x.go": ""} {
		if got := rootOf(filepath.Join(dir, path), dir, []string{"go.mod"}); got != filepath.Join(dir, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := rootOf("/somewhere/else/x.go", dir, []string{"go.mod"}); got != "/somewhere/else" {
		t.Errorf("outside: %s", got)
	}
}

func TestCallOnAConnectionThatEnds(t *testing.T) {
	in, far := io.Pipe()
	c := newConn(in, io.Discard, func(string, json.RawMessage) (any, error) { return nil, nil })
	go far.Close()
	if err := c.call(t.Context(), "x", nil, nil); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}
