package execd

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
)

func (r *rig) write(t *testing.T, path, contents string) string {
	t.Helper()
	name := filepath.Join(r.workspace, path)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(contents), 0o644); err != nil {
		t.Fatal(err)
	}
	return digestOf(contents)
}

func digestOf(contents string) string {
	sum := sha256.Sum256([]byte(contents))
	return hex.EncodeToString(sum[:])
}

// TestWriteFileOnlyIf checks that a file that somebody else has changed is not
// overwritten.
func TestWriteFileOnlyIf(t *testing.T) {
	r := serve(t, Config{})
	old := r.write(t, "f", "old")
	stream, err := r.files().ReadFile(t.Context(), connect.NewRequest(&agentv1.ReadFileRequest{Path: "f", WithSha256: true}))
	if err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() || stream.Msg().GetSha256() != old || string(stream.Msg().GetContents()) != "old" || stream.Receive() {
		t.Errorf("%v, %v", stream.Msg(), stream.Err())
	}
	for _, tt := range []struct {
		name  string
		first *agentv1.WriteFileRequest
		code  connect.Code // 0 means success
		holds string
	}{
		{"as it was read", &agentv1.WriteFileRequest{Path: "f", IfSha256: strings.ToUpper(old)}, 0, "new"},
		{"another meanwhile", &agentv1.WriteFileRequest{Path: "f", IfSha256: old}, connect.CodeFailedPrecondition, "new"},
		{"there already", &agentv1.WriteFileRequest{Path: "f", IfAbsent: true}, connect.CodeFailedPrecondition, "new"},
		{"not there", &agentv1.WriteFileRequest{Path: "g", IfSha256: old}, connect.CodeFailedPrecondition, ""},
		{"new", &agentv1.WriteFileRequest{Path: "a/g", IfAbsent: true}, 0, "new"},
	} {
		tt.first.SizeBytes = -1
		_, err := send(t.Context(), r.files(), tt.first, []byte("new"))
		if err == nil && tt.code != 0 || err != nil && connect.CodeOf(err) != tt.code {
			t.Errorf("%s: %v", tt.name, err)
		}
		if b, _ := os.ReadFile(filepath.Join(r.workspace, tt.first.GetPath())); string(b) != tt.holds {
			t.Errorf("%s: it holds %q", tt.name, b)
		}
	}
	// The file changes while the contents are sent.
	stale := r.write(t, "f", "stale")
	writing := r.files().WriteFile(t.Context())
	if err := writing.Send(&agentv1.WriteFileRequest{Path: "f", SizeBytes: -1, IfSha256: stale, Contents: []byte("mine")}); err != nil {
		t.Fatal(err)
	}
	r.write(t, "f", "theirs")
	if _, err := writing.CloseAndReceive(); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("%v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(r.workspace, "f")); string(b) != "theirs" {
		t.Errorf("%q", b)
	}
	if left, err := filepath.Glob(filepath.Join(r.workspace, ".aloft-write-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.Truncate(filepath.Join(r.workspace, "f"), maxDigested+1); err != nil {
		t.Fatal(err)
	}
	stream, err = r.files().ReadFile(t.Context(), connect.NewRequest(&agentv1.ReadFileRequest{Path: "f", WithSha256: true}))
	if err == nil && stream.Receive() || err == nil && connect.CodeOf(stream.Err()) != connect.CodeResourceExhausted {
		t.Errorf("one that is too long: %v, %v", err, stream.Err())
	}
}

func TestTendFiles(t *testing.T) {
	r := serve(t, Config{})
	r.write(t, "dir/a\n.txt", "a")
	r.write(t, "b", "b")
	files := r.files()
	move := func(from, to string) error {
		_, err := files.MoveFile(t.Context(), connect.NewRequest(&agentv1.MoveFileRequest{From: from, To: to}))
		return err
	}
	remove := func(path string, recursive bool) error {
		_, err := files.RemoveFile(t.Context(), connect.NewRequest(&agentv1.RemoveFileRequest{Path: path, Recursive: recursive}))
		return err
	}
	folder := func(path string) error {
		_, err := files.MakeFolder(t.Context(), connect.NewRequest(&agentv1.MakeFolderRequest{Path: path}))
		return err
	}
	if err := os.Symlink("dir", filepath.Join(r.workspace, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what string
		err  error
		code connect.Code // 0 means success
	}{
		{"make", folder("new/deep"), 0},
		{"make again", folder("new/deep"), connect.CodeFailedPrecondition},
		{"make what is no name", folder(""), connect.CodeInvalidArgument},
		{"move", move("dir/a\n.txt", "new/deeper/a"), 0},
		{"move what is not there", move("dir/a\n.txt", "x"), connect.CodeNotFound},
		{"move onto another", move("b", "new/deeper/a"), connect.CodeFailedPrecondition},
		{"move into itself", move("new", "new/deep/new"), connect.CodeInvalidArgument},
		{"move below a file", move("new", "b/new"), connect.CodeInvalidArgument},
		{"move the workspace", move(".", "../elsewhere"), connect.CodeInvalidArgument},
		{"remove a folder that is full", remove("new", false), connect.CodeFailedPrecondition},
		{"remove a link", remove("link", true), 0},
		{"remove it", remove("new", true), 0},
		{"remove it again", remove("new", true), connect.CodeNotFound},
		{"remove an empty one", remove("dir", false), 0},
		{"remove the workspace", remove("dir/..", true), connect.CodeInvalidArgument},
		{"remove where it is", remove("..", true), connect.CodeInvalidArgument},
		{"remove everything", remove("/", true), connect.CodeInvalidArgument},
	} {
		if tt.err == nil && tt.code != 0 || tt.err != nil && connect.CodeOf(tt.err) != tt.code {
			t.Errorf("%s: %v", tt.what, tt.err)
		}
	}
	left, err := os.ReadDir(r.workspace)
	if err != nil || len(left) != 1 || left[0].Name() != "b" {
		t.Errorf("%v, %v", left, err)
	}
}

func TestReadFolder(t *testing.T) {
	r := serve(t, Config{})
	long := strings.Repeat("0123456789", 100_000)
	r.write(t, "dir/long", long)
	r.write(t, "dir/sub/é\n", "")
	if err := os.Symlink("/etc/passwd", filepath.Join(r.workspace, "dir/link")); err != nil {
		t.Fatal(err)
	}
	stream, err := r.files().ReadFolder(t.Context(), connect.NewRequest(&agentv1.ReadFolderRequest{Path: "dir"}))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	for stream.Receive() {
		if n := len(stream.Msg().GetContents()); n > filePiece {
			t.Fatalf("a piece of %d bytes", n)
		}
		packed.Write(stream.Msg().GetContents())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for in := tar.NewReader(&packed); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = h.Linkname + string(b)
	}
	want := map[string]string{"dir/": "", "dir/long": long, "dir/sub/": "", "dir/sub/é\n": "", "dir/link": "/etc/passwd"}
	for name, contents := range want {
		if have, ok := got[name]; !ok || have != contents {
			t.Errorf("%q: %.40q, %v", name, have, ok)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d entries", len(got))
	}
	for path, code := range map[string]connect.Code{"none": connect.CodeNotFound, "dir/long": connect.CodeInvalidArgument} {
		stream, err := r.files().ReadFolder(t.Context(), connect.NewRequest(&agentv1.ReadFolderRequest{Path: path}))
		if err == nil && (stream.Receive() || connect.CodeOf(stream.Err()) != code) {
			t.Errorf("%s: %v", path, stream.Err())
		}
	}
	list, err := r.control().ListDirectory(t.Context(), connect.NewRequest(&agentv1.ListDirectoryRequest{Path: "dir"}))
	if err != nil || len(list.Msg.GetEntries()) != 3 || list.Msg.GetEntries()[0].GetLeadsToDirectory() {
		t.Errorf("%v, %v", list, err)
	}
}
