package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// maxPkt is the maximum payload of a pkt-line in bytes.
const maxPkt = 65516

var errPktLine = errors.New("broken pkt-line")

// readPkt reads one pkt-line. It returns nil for a flush packet only.
func readPkt(r *bufio.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := 0
	for _, c := range head {
		d, ok := hexDigit(c)
		if !ok {
			return nil, errPktLine
		}
		n = n<<4 | d
	}
	switch {
	case n == 0:
		return nil, nil
	case n < 4 || n > maxPkt+4: // 1 to 3 are special only in protocol 2, which pushes do not use
		return nil, errPktLine
	}
	line := make([]byte, n-4)
	if _, err := io.ReadFull(r, line); err != nil {
		return nil, fmt.Errorf("%w: %w", errPktLine, err)
	}
	return line, nil
}

func hexDigit(c byte) (int, bool) {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0'), true
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10, true
	}
	return 0, false
}

const flushPkt = "0000"

// appendPkt appends s as one pkt-line. s has at most maxPkt bytes.
func appendPkt[S []byte | string](dst []byte, s S) []byte {
	return append(fmt.Appendf(dst, "%04x", len(s)+4), s...)
}

// serviceLine returns the start of the ref list in protocols 0 and 1.
func serviceLine(service string) []byte {
	return append(appendPkt(nil, "# service="+service+"\n"), flushPkt...)
}
