package text

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ReadLine reads a line without its line break, and truncates a line that is longer than
// the reader's buffer. The last line must end with a line break.
func ReadLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	kept := string(bytes.TrimSuffix(line, []byte("\n")))
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	if errors.Is(err, io.EOF) && kept != "" {
		err = io.ErrUnexpectedEOF
	}
	return kept, err
}
