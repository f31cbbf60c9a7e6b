package execclient

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"

	"aloft/internal/control/pod"
	"aloft/internal/fault"
	"aloft/internal/folder"
	"aloft/internal/text"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// Limits for a machine's replies about its files.
const (
	maxFolderReply = 16 << 20  // bytes
	maxName        = 4 << 10   // bytes
	maxPiece       = 1 << 20   // bytes of a message with a piece of a file or folder
	filePiece      = 256 << 10 // bytes of a file per message to a machine
)

// Files reads and writes a machine's files as the agent's user. Relative paths
// begin at the workspace. Its methods are safe for concurrent use. Errors that
// a user can fix are faults. File contents are not redacted.
type Files struct{ client[fileServices] }

// fileServices are the services of exec-daemon for files.
type fileServices struct {
	control agentv1connect.ControlServiceClient
	files   agentv1connect.FileServiceClient
}

// NewFiles returns the machine's files. token is exec-daemon's. The caller must
// call Close.
func NewFiles(conn Conn, token string) *Files {
	return &Files{newClient(conn, token, maxFolderReply, func(through connect.HTTPClient, url string, options ...connect.ClientOption) fileServices {
		control := agentv1connect.NewControlServiceClient(through, url, options...)
		return fileServices{control, agentv1connect.NewFileServiceClient(through, url, append(options, connect.WithReadMaxBytes(maxPiece))...)}
	})}
}

// List returns the entries of a folder, sorted by name.
func (f *Files) List(ctx context.Context, path string) ([]folder.Entry, error) {
	res, err := f.service.control.ListDirectory(ctx, connect.NewRequest(&agentv1.ListDirectoryRequest{Path: path}))
	if err != nil {
		return nil, f.fault(err, "")
	}
	list := make([]folder.Entry, 0, len(res.Msg.GetEntries()))
	for _, e := range res.Msg.GetEntries() {
		list = append(list, folder.Entry{
			Name: text.Head(e.GetName(), maxName), Folder: e.GetIsDirectory() || e.GetIsSymlink() && e.GetLeadsToDirectory(), Link: e.GetIsSymlink(),
			Size: max(e.GetSizeBytes(), 0), Modified: when(e.GetModifiedAt()),
		})
	}
	return list, nil
}

// Read opens a file and returns its length in bytes and its contents. If digest
// is true, it also returns the SHA-256 in hex, and the file may have at most 16
// MiB. The contents are valid until ctx ends. The caller must close them.
func (f *Files) Read(ctx context.Context, path string, digest bool) (size int64, sha256 string, contents io.ReadCloser, err error) {
	ctx, cancel := context.WithCancel(ctx)
	req := connect.NewRequest(&agentv1.ReadFileRequest{Path: path, WithSha256: digest})
	stream, err := f.service.files.ReadFile(ctx, req)
	if err == nil && !stream.Receive() {
		if err = stream.Err(); err == nil {
			err = errors.New("the machine sent no reply about the file")
		}
	}
	if err != nil {
		cancel()
		return 0, "", nil, f.fault(err, "")
	}
	first := stream.Msg()
	if digest && !sha256Form.MatchString(first.GetSha256()) {
		cancel()
		return 0, "", nil, fault.NotImplemented("this machine is older than the server and does not support digests").Hint("give the agent a new machine")
	}
	p := &pieces{fault: f.fault, cancel: cancel, rest: first.GetContents(), next: func() ([]byte, error) {
		if stream.Receive() {
			return stream.Msg().GetContents(), nil
		}
		return nil, stream.Err()
	}}
	return max(first.GetFileSizeBytes(), 0), first.GetSha256(), p, nil
}

// Pack returns a folder as a tar file, valid until ctx ends. The caller must
// close it.
func (f *Files) Pack(ctx context.Context, path string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	req := connect.NewRequest(&agentv1.ReadFolderRequest{Path: path})
	stream, err := f.service.files.ReadFolder(ctx, req)
	if err == nil && !stream.Receive() {
		if err = stream.Err(); err == nil {
			err = errors.New("the machine sent no reply about the folder")
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

// pieces is a reader of data that comes in pieces.
type pieces struct {
	next   func() ([]byte, error) // returns nil and no error at the end
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

// Write atomically creates or replaces a file with the content of from; size is
// its length, or -1. If ifSHA256 is set, the existing file must have that
// digest; if ifAbsent is true, it must not exist. Otherwise the error is a
// conflict with the code file_changed or file_exists. Write returns the length
// and the digest of the new file.
func (f *Files) Write(ctx context.Context, path string, from io.Reader, size int64, ifSHA256 string, ifAbsent bool) (written int64, sha256 string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := f.service.files.WriteFile(ctx)
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
			cancel() // otherwise the machine would consider the file complete
			_, _ = stream.CloseAndReceive()
			return 0, "", err
		}
		message.Contents = b[:n]
		if stream.Send(message) != nil {
			break // the reply contains the reason
		}
	}
	res, err := stream.CloseAndReceive()
	if err != nil {
		return 0, "", f.fault(err, code)
	}
	return res.Msg.GetSizeBytes(), text.Head(res.Msg.GetSha256(), maxID), nil
}

// MakeFolder creates a folder and its parents. If it exists, the error is a
// conflict with the code file_exists.
func (f *Files) MakeFolder(ctx context.Context, path string) error {
	_, err := f.service.files.MakeFolder(ctx, connect.NewRequest(&agentv1.MakeFolderRequest{Path: path}))
	return f.fault(err, "file_exists")
}

// Move moves a file or a folder. If the target exists, the error is a conflict
// with the code file_exists.
func (f *Files) Move(ctx context.Context, from, to string) error {
	_, err := f.service.files.MoveFile(ctx, connect.NewRequest(&agentv1.MoveFileRequest{From: from, To: to}))
	return f.fault(err, "file_exists")
}

// Remove removes a file or a folder. If a folder is not empty, recursive must
// be true; otherwise the error is a conflict with the code folder_not_empty.
func (f *Files) Remove(ctx context.Context, path string, recursive bool) error {
	_, err := f.service.files.RemoveFile(ctx, connect.NewRequest(&agentv1.RemoveFileRequest{Path: path, Recursive: recursive}))
	return f.fault(err, "folder_not_empty")
}

// fault converts an error of exec-daemon. conflict is the code to use if the
// file is not in the required state.
func (f *Files) fault(err error, conflict string) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*connect.Error](err)
	if lost := f.conn.Lost(err); !ok || errors.Is(lost, pod.ErrLost) {
		return fault.Unavailable("the machine does not answer").Named("machine_lost").Hint("try again in a moment").Because(lost)
	}
	words := text.Head(e.Message(), maxDetail)
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
		return fault.Denied("the machine's exec-daemon does not accept this server's token").Named("machine_denied")
	case connect.CodeUnimplemented:
		return fault.NotImplemented("this machine is older than the server and does not support this").Hint("give the agent a new machine")
	case connect.CodeUnavailable:
		return fault.Unavailable("%s", words).Named("machine_lost").Hint("try again in a moment")
	}
	return fmt.Errorf("files: %w", f.error(err))
}
