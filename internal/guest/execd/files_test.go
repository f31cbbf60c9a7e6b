package execd

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

func (r *rig) files() agentv1connect.FileServiceClient {
	return agentv1connect.NewFileServiceClient(r.client, r.url, connect.WithInterceptors(bearer(testToken)))
}

// TestReadFiveGigabytes checks that a file that does not fit into memory is
// sent in pieces.
func TestReadFiveGigabytes(t *testing.T) {
	r := serve(t, Config{})
	const size = 5 << 30
	path := filepath.Join(r.workspace, "big")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("the end"), size-7); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	stream, err := r.files().ReadFile(t.Context(), connect.NewRequest(&agentv1.ReadFileRequest{Path: "big"}))
	if err != nil {
		t.Fatal(err)
	}
	var got, most uint64
	var last []byte
	for stream.Receive() {
		b := stream.Msg().GetContents()
		if got == 0 && stream.Msg().GetFileSizeBytes() != size {
			t.Errorf("size %d", stream.Msg().GetFileSizeBytes())
		}
		got += uint64(len(b))
		last = append(last[:0], b[max(0, len(b)-7):]...)
		if got%(1<<28) == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
		}
	}
	if err := stream.Err(); err != nil || got != size || string(last) != "the end" {
		t.Errorf("%d bytes, the last are %q: %v", got, last, err)
	}
	if most > 256<<20 {
		t.Errorf("%d MiB of heap", most>>20)
	}
	// Both methods can read a part of the file.
	part, err := r.control().ReadBinaryFile(t.Context(), connect.NewRequest(&agentv1.ReadBinaryFileRequest{Path: "big", Offset: size - 7, Limit: 3}))
	if err != nil || string(part.Msg.GetContents()) != "the" || part.Msg.GetFileSizeBytes() != size {
		t.Errorf("%v, %v", part, err)
	}
	if _, err := r.control().ReadBinaryFile(t.Context(), connect.NewRequest(&agentv1.ReadBinaryFileRequest{Path: "big"})); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("all of it at once: %v", err)
	}
	stream, err = r.files().ReadFile(t.Context(), connect.NewRequest(&agentv1.ReadFileRequest{Path: "big", Offset: size - 7, Limit: 3}))
	if err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() || string(stream.Msg().GetContents()) != "the" || stream.Receive() {
		t.Errorf("%q, %v", stream.Msg().GetContents(), stream.Err())
	}
}

func send(ctx context.Context, files agentv1connect.FileServiceClient, first *agentv1.WriteFileRequest, pieces ...[]byte) (*agentv1.WriteFileResponse, error) {
	stream := files.WriteFile(ctx)
	if err := stream.Send(first); err == nil {
		for _, p := range pieces {
			if stream.Send(&agentv1.WriteFileRequest{Contents: p}) != nil {
				break // the reply contains the error
			}
		}
	}
	res, err := stream.CloseAndReceive()
	if err != nil {
		return nil, err
	}
	return res.Msg, nil
}

func TestWriteFile(t *testing.T) {
	r := serve(t, Config{})
	files := r.files()
	piece := make([]byte, 1<<20)
	_, _ = rand.Read(piece)
	var pieces [][]byte
	sum := sha256.New()
	for range 80 { // more than fits into one message
		pieces = append(pieces, piece)
		_, _ = sum.Write(piece)
	}
	res, err := send(t.Context(), files, &agentv1.WriteFileRequest{Path: "dir/new", SizeBytes: 80 << 20, Mode: 0o755}, pieces...)
	if err != nil || res.GetSizeBytes() != 80<<20 || res.GetSha256() != hex.EncodeToString(sum.Sum(nil)) {
		t.Fatalf("%v, %v", res, err)
	}
	path := filepath.Join(r.workspace, "dir/new")
	if info, err := os.Stat(path); err != nil || info.Size() != 80<<20 || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	for name, tt := range map[string]struct {
		first *agentv1.WriteFileRequest
		code  connect.Code
	}{
		"too few":  {&agentv1.WriteFileRequest{Path: "dir/new", SizeBytes: 5}, connect.CodeInvalidArgument},
		"no path":  {&agentv1.WriteFileRequest{SizeBytes: -1}, connect.CodeInvalidArgument},
		"a folder": {&agentv1.WriteFileRequest{Path: "dir", SizeBytes: -1}, connect.CodeInvalidArgument},
		"set-uid":  {&agentv1.WriteFileRequest{Path: "x", Mode: 0o4755}, connect.CodeInvalidArgument},
		"a piece":  {&agentv1.WriteFileRequest{Path: "x", SizeBytes: -1, Contents: make([]byte, maxWritePiece+1)}, connect.CodeResourceExhausted},
	} {
		if _, err := send(t.Context(), files, tt.first, []byte("abc")); connect.CodeOf(err) != tt.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An aborted upload changes no file.
	ctx, cancel := context.WithCancel(t.Context())
	stream := files.WriteFile(ctx)
	if err := stream.Send(&agentv1.WriteFileRequest{Path: "dir/new", SizeBytes: -1, Contents: piece}); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, _ = stream.CloseAndReceive()
	r.stop()
	if info, err := os.Stat(path); err != nil || info.Size() != 80<<20 {
		t.Errorf("%v, %v", info, err)
	}
	if left, err := filepath.Glob(filepath.Join(r.workspace, "dir/.aloft-write-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestNoTearing has two clients write a file while another reads it. The reader
// must always get a complete version.
func TestNoTearing(t *testing.T) {
	r := serve(t, Config{})
	var writing sync.WaitGroup
	path := filepath.Join(r.workspace, "f")
	done := make(chan struct{})
	for _, c := range []byte{'a', 'b'} {
		writing.Go(func() {
			b := bytes.Repeat([]byte{c}, 1<<20)
			for range 15 {
				if _, err := send(t.Context(), r.files(), &agentv1.WriteFileRequest{Path: "f", SizeBytes: -1}, b[:1<<19], b[1<<19:]); err != nil {
					t.Error(err)
				}
				if _, err := r.control().WriteBinaryFile(t.Context(), connect.NewRequest(&agentv1.WriteBinaryFileRequest{Path: "f", Contents: b})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { writing.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		b, err := os.ReadFile(path)
		if err != nil {
			if os.IsNotExist(err) && !over {
				continue
			}
			t.Fatal(err)
		}
		if len(b) != 1<<20 || bytes.Count(b, b[:1]) != len(b) {
			t.Fatalf("torn: %d bytes", len(b))
		}
	}
}

func TestReadTextInParts(t *testing.T) {
	r := serve(t, Config{})
	text := strings.Repeat("aä€😀\n", 300)
	if err := os.WriteFile(filepath.Join(r.workspace, "text"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(offset, limit int64) (*agentv1.ReadTextFileResponse, error) {
		res, err := r.control().ReadTextFile(t.Context(), connect.NewRequest(&agentv1.ReadTextFileRequest{Path: "text", Offset: offset, Limit: limit}))
		if err != nil {
			return nil, err
		}
		return res.Msg, nil
	}
	for _, limit := range []int64{1, 4, 5, 7, 100} {
		var got strings.Builder
		for at := int64(0); at < int64(len(text)); {
			part, err := read(at, limit)
			if err != nil || part.GetContents() == "" || part.GetOffset() != at || part.GetFileSizeBytes() != int64(len(text)) {
				t.Fatalf("limit %d at %d: %v, %v", limit, at, part, err)
			}
			got.WriteString(part.GetContents())
			at += int64(len(part.GetContents()))
		}
		if got.String() != text {
			t.Errorf("limit %d: another text", limit)
		}
	}
	for at := range int64(12) { // the offset is in the middle of a character
		part, err := read(at, 8)
		if err != nil || !utf8.ValidString(part.GetContents()) || part.GetOffset() > at || !strings.HasPrefix(text[part.GetOffset():], part.GetContents()) {
			t.Errorf("at %d: %v, %v", at, part, err)
		}
	}
	if part, err := read(1<<40, 0); err != nil || part.GetContents() != "" {
		t.Errorf("beyond the end: %v, %v", part, err)
	}
	if _, err := read(-1, 0); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("before the beginning: %v", err)
	}
}
