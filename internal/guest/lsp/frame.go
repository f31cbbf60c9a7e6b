package lsp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	maxHeader = 4 << 10  // bytes of all headers of a message
	maxFrame  = 16 << 20 // bytes of a message
)

var (
	errHeader = errors.New("malformed header")
	errFrame  = errors.New("message too long")
)

// readFrame reads a message of the base protocol: headers, an empty line, and
// Content-Length bytes. It rejects messages that are too long before reading
// them, and allocates memory only as data arrives. The error is io.EOF if the
// stream ends between messages.
func readFrame(in *bufio.Reader) ([]byte, error) {
	length := -1
	for read := 0; ; {
		line, err := in.ReadSlice('\n')
		read += len(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || read > maxHeader:
			return nil, fmt.Errorf("%w: longer than %d bytes", errHeader, maxHeader)
		case errors.Is(err, io.EOF) && read == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return nil, fmt.Errorf("%w: %.60q", errHeader, line)
		}
		if !bytes.EqualFold(bytes.TrimSpace(name), []byte("Content-Length")) {
			continue
		}
		if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 {
			return nil, fmt.Errorf("%w: %.60q", errHeader, line)
		}
	}
	switch {
	case length < 0:
		return nil, fmt.Errorf("%w: no Content-Length", errHeader)
	case length > maxFrame:
		return nil, fmt.Errorf("%w: %d bytes", errFrame, length)
	}
	var body bytes.Buffer
	n, err := io.CopyN(&body, in, int64(length))
	if n < int64(length) && (err == nil || errors.Is(err, io.EOF)) {
		err = io.ErrUnexpectedEOF
	}
	return body.Bytes(), err
}

// frame encodes a message for sending.
func frame(body []byte) []byte {
	return append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(body)), body...)
}
