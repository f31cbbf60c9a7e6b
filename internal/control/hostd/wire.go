package hostd

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Each call has a connection of its own. The first frame of the client is a request;
// the last frame of the host-daemon is a result. A frame is 4 bytes with the length of its
// content, most significant first, a byte with its kind, and the content, which is
// JSON. Descriptors come with the first bytes of a frame.

// Kinds of frames on a connection to the host-daemon.
const (
	frameRequest  = 'q' // a [request]
	frameStarted  = 's' // the host-daemon has started the requested work; no content
	frameSignal   = 'k' // a signal for the command of the request: a number
	frameLine     = 'l' // a line of output: a string
	frameQuestion = '?' // the host-daemon waits for the client; no content
	frameAnswer   = 'a' // the client's answer: an [*errorText], or null
	frameResult   = 'r' // a [result]
)

const (
	headSize  = 5
	maxFrame  = 64 << 20 // bytes of content; the largest are lists of thousands of layers
	maxFiles  = 64       // files in a frame; the kernel's limit is 253
	rightsLen = 4        // bytes per descriptor in a control message
)

// request is the content of a call's first frame.
type request struct {
	Method string          `json:"method"`
	Args   json.RawMessage `json:"args"`
}

// result is the content of a call's last frame.
type result struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error *errorText      `json:"error,omitempty"`
}

// writeFrame writes a frame and passes the descriptors of files with it.
func writeFrame(c *net.UnixConn, kind byte, content any, files ...*os.File) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if len(data) > maxFrame || len(files) > maxFiles {
		return fmt.Errorf("message of %d bytes and %d files is too large", len(data), len(files))
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	head = append(head, kind)
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	n, _, err := c.WriteMsgUnix(append(head, data...), rights, nil)
	if err == nil && n < headSize+len(data) {
		_, err = c.Write(data[n-headSize:])
	}
	return err
}

// readFrame reads a frame. Before it reads the content, it calls room with the
// content's size; room may refuse. The caller must close the files.
func readFrame(c *net.UnixConn, room func(size int) error) (kind byte, content []byte, files []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
			files = nil
		}
	}()
	var head [headSize]byte
	rights := make([]byte, unix.CmsgSpace(maxFiles*rightsLen))
	for n := 0; n < headSize; {
		got, oob, flags, _, err := c.ReadMsgUnix(head[n:], rights)
		received, errFiles := filesOf(rights[:oob])
		files = append(files, received...)
		switch {
		case err != nil:
			return 0, nil, files, err
		case errFiles != nil:
			return 0, nil, files, errFiles
		case flags&unix.MSG_CTRUNC != 0:
			return 0, nil, files, errors.New("message with too many files")
		case got == 0:
			return 0, nil, files, io.EOF
		}
		n += got
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return 0, nil, files, fmt.Errorf("message of %d bytes is too large", size)
	}
	if err := room(int(size)); err != nil {
		return 0, nil, files, err
	}
	content = make([]byte, size)
	_, err = io.ReadFull(c, content)
	return head[headSize-1], content, files, err
}

// filesOf returns the files in the control messages of a frame.
func filesOf(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m) // control messages of other types contain no descriptors
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nothing was written through it
	}
}
