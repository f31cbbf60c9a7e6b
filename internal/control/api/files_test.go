package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"aloft/internal/control/api/machines"
	"aloft/internal/fault"
	"aloft/internal/folder"
)

// filesEnd is a machine that implements only the file methods.
type filesEnd struct {
	machines.Machines
	files farFiles
}

func (e filesEnd) Files(context.Context, string) (machines.Files, error) { return e.files, nil }

// farFiles uses a folder of the test as the machine's files.
type farFiles struct {
	*os.Root
	cut    bool // reading fails halfway
	closed *atomic.Int64
}

func (f farFiles) Close() error { f.closed.Add(1); return nil }

func (f farFiles) List(_ context.Context, name string) ([]folder.Entry, error) {
	dir, err := f.Open(name)
	if err != nil {
		return nil, fault.NotFound("%s does not exist", name).Named("file_not_found")
	}
	defer dir.Close()
	found, err := dir.ReadDir(-1)
	var list []folder.Entry
	for _, e := range found {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		list = append(list, folder.Entry{Name: e.Name(), Folder: e.IsDir(), Size: info.Size(), Modified: info.ModTime()})
	}
	return list, err
}

func (f farFiles) Read(_ context.Context, name string, digest bool) (int64, string, io.ReadCloser, error) {
	b, err := f.ReadFile(name)
	if err != nil {
		return 0, "", nil, fault.NotFound("%s does not exist", name).Named("file_not_found")
	}
	sum := ""
	if digest {
		sum = digestOf(b)
	}
	from := io.Reader(bytes.NewReader(b))
	if f.cut {
		from = io.MultiReader(bytes.NewReader(b[:len(b)/2]), broken{})
	}
	return int64(len(b)), sum, io.NopCloser(from), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the machine is gone") }

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (f farFiles) Pack(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("packed")), nil
}

func (f farFiles) Write(_ context.Context, name string, from io.Reader, _ int64, ifSHA256 string, ifAbsent bool) (int64, string, error) {
	b, err := io.ReadAll(from)
	if err != nil {
		return 0, "", err
	}
	old, err := f.ReadFile(name)
	switch {
	case ifAbsent && err == nil:
		return 0, "", fault.Conflict("it is there").Named("file_exists")
	case ifSHA256 != "" && ifSHA256 != digestOf(old):
		return 0, "", fault.Conflict("it has changed").Named("file_changed")
	}
	return int64(len(b)), digestOf(b), f.WriteFile(name, b, 0o644)
}

func (f farFiles) MakeFolder(_ context.Context, name string) error { return f.Mkdir(name, 0o755) }
func (f farFiles) Move(_ context.Context, from, to string) error   { return f.Rename(from, to) }

func (f farFiles) Remove(_ context.Context, name string, recursive bool) error {
	if recursive {
		return f.RemoveAll(name)
	}
	if err := f.Root.Remove(name); err != nil {
		return fault.Conflict("it is not empty").Named("folder_not_empty")
	}
	return nil
}

func TestFiles(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var closed atomic.Int64
	h.api.machines.Machines = filesEnd{files: farFiles{Root: root, closed: &closed}}
	at := func(what, name string) string {
		return "/v1/agents/" + id + "/files" + what + "?path=" + url.QueryEscape(name)
	}
	code := func(a answer, status int, code string) {
		t.Helper()
		if got := h.want(a, status).text(t, "error.code"); got != code {
			t.Errorf("%s, want %s: %s", got, code, a.body)
		}
	}
	const hostile = "<img src=x onerror=alert(1)>\n\u202egpj.\"é"
	text := "one\n\xff\x00two"
	a := h.want(h.call("PUT", at("/contents", hostile), text, "If-None-Match", "*"), 200)
	tag := a.header.Get("ETag")
	if want := `"` + digestOf([]byte(text)) + `"`; tag != want || a.get(t, "sizeBytes") != 9.0 {
		t.Errorf("%s, %s", tag, a.body)
	}
	code(h.call("PUT", at("/contents", hostile), "x", "If-None-Match", "*"), 409, "file_exists")
	a = h.want(h.call("GET", at("/contents", hostile)+"&digest=true", ""), 200)
	if string(a.body) != text || a.header.Get("ETag") != tag || a.header.Get("Content-Security-Policy") == "" {
		t.Errorf("%q, %v", a.body, a.header)
	}
	kind, all, err := mime.ParseMediaType(a.header.Get("Content-Disposition"))
	if err != nil || kind != "attachment" || all["filename"] != hostile {
		t.Errorf("%q, %v, %v", kind, all, err)
	}
	if a := h.want(h.call("HEAD", at("/contents", hostile), ""), 200); len(a.body) != 0 || a.header.Get("Content-Length") != "9" || a.header.Get("ETag") != "" {
		t.Errorf("%q, %v", a.body, a.header)
	}
	h.want(h.call("PUT", at("/contents", hostile), "two", "If-Match", tag), 200)
	code(h.call("PUT", at("/contents", hostile), "three", "If-Match", tag), 409, "file_changed")
	if a := h.want(h.call("GET", at("", "."), ""), 200); !strings.Contains(string(a.body), `\n\u202e`) && !strings.Contains(string(a.body), "\u202egpj") {
		t.Errorf("%s", a.body)
	}
	h.want(h.call("POST", "/v1/agents/"+id+"/files/folders", `{"path":"dir"}`), 201)
	h.want(h.call("PUT", at("/contents", "dir/a"), ""), 200)
	h.want(h.call("POST", "/v1/agents/"+id+"/files/move", `{"from":"dir/a","to":"dir/b"}`), 200)
	if a := h.want(h.call("GET", at("/archive", "/"), ""), 200); string(a.body) != "packed" || !strings.Contains(a.header.Get("Content-Disposition"), "workspace.tar") {
		t.Errorf("%q, %v", a.body, a.header)
	}
	code(h.call("DELETE", at("", "dir"), ""), 409, "folder_not_empty")
	h.want(h.call("DELETE", at("", "dir")+"&recursive=true", ""), 200)
	if _, err := os.Lstat(filepath.Join(root.Name(), "dir")); !os.IsNotExist(err) {
		t.Error(err)
	}

	for _, tt := range []struct {
		a      answer
		status int
	}{
		{h.call("GET", at("", ""), ""), 400},
		{h.call("GET", at("", "a\x00b"), ""), 400},
		{h.call("GET", at("", strings.Repeat("x", 4<<10+1)), ""), 400},
		{h.call("GET", at("/contents", "none"), ""), 404},
		{h.call("GET", at("/contents", hostile)+"&digest=perhaps", ""), 400},
		{h.call("PUT", at("/contents", "f"), "x", "If-Match", `"perhaps"`), 400},
		{h.call("PUT", at("/contents", "f"), "x", "If-None-Match", tag), 400},
		{h.call("PUT", at("/contents", "f"), "x", "If-None-Match", "*", "If-Match", tag), 400},
		{h.call("POST", "/v1/agents/"+id+"/files/folders", `{"path":""}`), 400},
		{h.call("POST", "/v1/agents/"+id+"/files/move", `{"from":"a"}`), 400},
		{h.callAs(viewersKey, "GET", at("", "."), ""), 200},
		{h.callAs(viewersKey, "GET", at("/contents", hostile), ""), 403},
		{h.callAs(viewersKey, "GET", at("/archive", "."), ""), 403},
		{h.callAs(viewersKey, "PUT", at("/contents", hostile), "x"), 403},
		{h.callAs(viewersKey, "DELETE", at("", hostile), ""), 403},
		{h.callAs(bensKey, "GET", at("", "."), ""), 404},
	} {
		if tt.a.status != tt.status {
			t.Errorf("%d, want %d: %s", tt.a.status, tt.status, tt.a.body)
		}
	}
	if b, err := root.ReadFile(hostile); err != nil || string(b) != "two" {
		t.Errorf("%q, %v", b, err)
	}
	if closed.Load() == 0 {
		t.Error("nothing was closed")
	}

	// The client detects a transfer that fails halfway, and one that is too
	// long.
	h.api.machines.Machines = filesEnd{files: farFiles{Root: root, closed: &closed, cut: true}}
	req, err := http.NewRequestWithContext(t.Context(), "GET", h.http.URL+at("/contents", hostile), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+annsKey)
	if reply, err := h.http.Client().Do(req); err == nil {
		b, err := io.ReadAll(reply.Body)
		_ = reply.Body.Close()
		if err == nil {
			t.Errorf("%q counts as whole", b)
		}
	}
	req = httptest.NewRequestWithContext(t.Context(), "PUT", at("/contents", "long"), strings.NewReader("")) // the server reads nothing of the body
	req.ContentLength = 4<<30 + 1
	req.Header.Set("Authorization", "Bearer "+annsKey)
	rec := httptest.NewRecorder()
	h.api.handler().ServeHTTP(rec, req)
	if rec.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
