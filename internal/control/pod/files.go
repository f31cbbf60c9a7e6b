package pod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// Bounds of what a machine says of its files.
const (
	maxFolderReply = 16 << 20  // bytes
	maxName        = 4 << 10   // bytes
	filePiece      = 256 << 10 // bytes of a file that go to a machine in one message
)

// FileEntry is what a folder has, as the machine tells it.
type FileEntry struct {
	Name     string
	Folder   bool // of a link: where it leads
	Link     bool
	Size     int64 // bytes
	Modified time.Time
}

// Files reads and writes a machine's files, as the agent's user. A relative path
// begins at the workspace. Its methods are safe for concurrent use. Errors
// that a person can do something about are faults. What files hold is read and
// written as it is, secrets included.
type Files struct {
	conn    *Conn
	http    *http.Client
	token   string
	control agentv1connect.ControlServiceClient
	files   agentv1connect.FileServiceClient
}

// Files returns the machine's files, for whoever has exec-daemon's token. Close
// it when done.
func (c *Conn) Files(token string) *Files {
	var h2c http.Protocols
	h2c.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{
		Protocols: &h2c, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.OpenExec(ctx) },
	}}
	options := []connect.ClientOption{
		connect.WithInterceptors(withToken(token), heard{c.secrets}), connect.WithReadMaxBytes(maxFolderReply), connect.WithAcceptCompression("gzip", nil, nil),
	}
	return &Files{c, client, token, agentv1connect.NewControlServiceClient(client, "http://exec", options...), agentv1connect.NewFileServiceClient(client, "http://exec", options...)}
}

// Close lets go of the stream to exec-daemon.
func (f *Files) Close() { f.http.CloseIdleConnections() }

// List returns what a folder has, by name.
func (f *Files) List(ctx context.Context, path string) ([]FileEntry, error) {
	res, err := f.control.ListDirectory(ctx, connect.NewRequest(&agentv1.ListDirectoryRequest{Path: path}))
	if err != nil {
		return nil, f.fault(err, "")
	}
	list := make([]FileEntry, 0, len(res.Msg.GetEntries()))
	for _, e := range res.Msg.GetEntries() {
		list = append(list, FileEntry{
			Name: bounded(e.GetName(), maxName), Folder: e.GetIsDirectory() || e.GetIsSymlink() && e.GetLeadsToDirectory(), Link: e.GetIsSymlink(),
			Size: max(e.GetSizeBytes(), 0), Modified: when(e.GetModifiedAt()),
		})
	}
	return list, nil
}

// Read opens a file: how long it is, in bytes, and what it holds. With digest
// the SHA-256 of its contents comes too, in hex, and the file is at most 16 MiB.
// The contents end with ctx, and are to be closed.
func (f *Files) Read(ctx context.Context, path string, digest bool) (size int64, sha256 string, contents io.ReadCloser, err error) {
	ctx, cancel := context.WithCancel(ctx)
	req := connect.NewRequest(&agentv1.ReadFileRequest{Path: path, WithSha256: digest})
	req.Header().Set("Authorization", "Bearer "+f.token)
	stream, err := f.files.ReadFile(ctx, req)
	if err == nil && !stream.Receive() {
		if err = stream.Err(); err == nil {
			err = errors.New("the machine says nothing of the file")
		}
	}
	if err != nil {
		cancel()
		return 0, "", nil, f.fault(err, "")
	}
	first := stream.Msg()
	if digest && !sha256Form.MatchString(first.GetSha256()) {
		cancel()
		return 0, "", nil, fault.NotImplemented("this machine is older than the server, and tells no digests").Hint("give the agent a new machine")
	}
	p := &pieces{fault: f.fault, cancel: cancel, rest: first.GetContents(), next: func() ([]byte, error) {
		if stream.Receive() {
			return stream.Msg().GetContents(), nil
		}
		return nil, stream.Err()
	}}
	return max(first.GetFileSizeBytes(), 0), first.GetSha256(), p, nil
}

// Pack returns a folder as a tar file. It ends with ctx, and is to be closed.
func (f *Files) Pack(ctx context.Context, path string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	req := connect.NewRequest(&agentv1.ReadFolderRequest{Path: path})
	req.Header().Set("Authorization", "Bearer "+f.token)
	stream, err := f.files.ReadFolder(ctx, req)
	if err == nil && !stream.Receive() {
		if err = stream.Err(); err == nil {
			err = errors.New("the machine says nothing of the folder")
		}
	}
	if err != nil {
		cancel()
		return nil, f.fault(err, "")
	}
	return &pieces{fault: f.fault, cancel: cancel, rest: stream.Msg().GetContents(), next: func() ([]byte, error) {
		if stream.Receive() {
			return stream.Msg().GetContents(), nil
		}
		return nil, stream.Err()
	}}, nil
}

// pieces reads what comes in them.
type pieces struct {
	next   func() ([]byte, error) // nil and no error is the end
	rest   []byte
	fault  func(error, string) error
	cancel context.CancelFunc
}

// Read implements [io.Reader].
func (p *pieces) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		piece, err := p.next()
		if err != nil {
			return 0, p.fault(err, "")
		}
		if piece == nil {
			return 0, io.EOF
		}
		p.rest = piece
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Close implements [io.Closer].
func (p *pieces) Close() error {
	p.cancel()
	return nil
}

// Write makes or replaces a file with what from has, whole or not at all; size
// is how many bytes that is, or -1. With ifSHA256 the file must hold now what
// has that digest, and with ifAbsent it must not be there: otherwise the error is
// a conflict named file_changed or file_exists. It returns how long the file is,
// and its digest.
func (f *Files) Write(ctx context.Context, path string, from io.Reader, size int64, ifSHA256 string, ifAbsent bool) (written int64, sha256 string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := f.files.WriteFile(ctx)
	stream.RequestHeader().Set("Authorization", "Bearer "+f.token)
	code := "file_changed"
	if ifAbsent {
		code = "file_exists"
	}
	message := &agentv1.WriteFileRequest{Path: path, SizeBytes: size, IfSha256: ifSHA256, IfAbsent: ifAbsent}
	b := make([]byte, filePiece)
	for over := false; !over; message.Reset() {
		n, err := io.ReadFull(from, b)
		over = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !over {
			cancel() // before it counts as whole
			_, _ = stream.CloseAndReceive()
			return 0, "", err
		}
		message.Contents = b[:n]
		if stream.Send(message) != nil {
			break // the reply says why
		}
	}
	res, err := stream.CloseAndReceive()
	if err != nil {
		return 0, "", f.fault(err, code)
	}
	return res.Msg.GetSizeBytes(), bounded(res.Msg.GetSha256(), maxID), nil
}

// MakeFolder makes a folder, and those on the way. One that is there is a
// conflict named file_exists.
func (f *Files) MakeFolder(ctx context.Context, path string) error {
	_, err := f.files.MakeFolder(ctx, connect.NewRequest(&agentv1.MakeFolderRequest{Path: path}))
	return f.fault(err, "file_exists")
}

// Move moves a file or a folder to where nothing is: something there is a
// conflict named file_exists.
func (f *Files) Move(ctx context.Context, from, to string) error {
	_, err := f.files.MoveFile(ctx, connect.NewRequest(&agentv1.MoveFileRequest{From: from, To: to}))
	return f.fault(err, "file_exists")
}

// Remove removes a file, or a folder; one that is not empty only with
// recursive, and is a conflict named folder_not_empty without.
func (f *Files) Remove(ctx context.Context, path string, recursive bool) error {
	_, err := f.files.RemoveFile(ctx, connect.NewRequest(&agentv1.RemoveFileRequest{Path: path, Recursive: recursive}))
	return f.fault(err, "folder_not_empty")
}

// fault says in our words what exec-daemon answered. conflict is the code of a
// file in another state than was asked for.
func (f *Files) fault(err error, conflict string) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*connect.Error](err)
	if lost := f.conn.lost(err); !ok || errors.Is(lost, ErrLost) {
		return fault.Unavailable("the machine does not answer").Named("machine_lost").Hint("try again in a moment").Because(lost)
	}
	words := bounded(e.Message(), maxDetail)
	switch e.Code() {
	case connect.CodeInvalidArgument:
		return fault.Invalid("%s", words)
	case connect.CodeNotFound:
		return fault.NotFound("%s", words).Named("file_not_found")
	case connect.CodeFailedPrecondition:
		out := fault.Conflict("%s", words)
		if conflict != "" {
			out = out.Named(conflict)
		}
		return out
	case connect.CodeResourceExhausted:
		return fault.Conflict("%s", words).Named("file_too_large")
	case connect.CodePermissionDenied:
		return fault.Denied("%s", words)
	case connect.CodeUnauthenticated:
		return fault.Denied("the machine's exec-daemon does not know this server's token").Named("machine_denied")
	case connect.CodeUnimplemented:
		return fault.NotImplemented("this machine is older than the server, and cannot do it").Hint("give the agent a new machine")
	case connect.CodeUnavailable:
		return fault.Unavailable("%s", words).Named("machine_lost").Hint("try again in a moment")
	}
	return fmt.Errorf("files: %w", f.conn.rpcError(err))
}
