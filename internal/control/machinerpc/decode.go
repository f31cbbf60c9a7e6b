package machinerpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Limits on a machine's reply in memory. Limiting a reply's encoded size is not
// enough: a message of two bytes takes about a hundred bytes once it is
// decoded.
const (
	// maxParts is how many messages and list elements a message may contain.
	// The largest message of an honest machine, an MCP result of 2 MiB that is
	// a list of numbers, contains 190,000.
	maxParts = 200_000
	// maxNested is how deep messages may be nested.
	maxNested = 128
	// maxErrorBody is the maximum size of an error, in bytes. Connect decodes it
	// as JSON.
	maxErrorBody = 64 << 10
)

// errParts is the error of a message with too many parts.
var errParts = fmt.Errorf("the machine's message has more than %d parts, or more than %d levels", maxParts, maxNested)

// sparing is Connect's codec for protobuf with a limit: it counts the parts of
// a message before it decodes the message.
type sparing struct{}

// Name implements [connect.Codec].
func (sparing) Name() string { return "proto" }

// Marshal implements [connect.Codec].
func (s sparing) Marshal(message any) ([]byte, error) { return s.MarshalAppend(nil, message) }

// MarshalAppend lets Connect encode into a reused buffer.
func (sparing) MarshalAppend(to []byte, message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a protobuf message", message)
	}
	return proto.MarshalOptions{}.MarshalAppend(to, m)
}

// Unmarshal implements [connect.Codec].
func (sparing) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a protobuf message", message)
	}
	left := maxParts
	if err := countParts(data, m.ProtoReflect().Descriptor(), maxNested, &left); err != nil {
		return err
	}
	return proto.Unmarshal(data, m)
}

// countParts subtracts the parts of an encoded message from left. It returns
// [errParts] if left or depth falls below zero.
func countParts(data []byte, of protoreflect.MessageDescriptor, depth int, left *int) error {
	if depth < 0 {
		return errParts
	}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return protowire.ParseError(n)
		}
		value := data[:n]
		data = data[n:]
		field := of.Fields().ByNumber(number)
		if field == nil {
			continue // an unknown field is kept undecoded
		}
		message := field.Message()
		if message == nil && !field.IsList() {
			continue
		}
		*left--
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
			switch {
			case message != nil:
				if err := countParts(value, message, depth-1, left); err != nil {
					return err
				}
			case field.Kind() != protoreflect.StringKind && field.Kind() != protoreflect.BytesKind:
				*left -= len(value) // packed list: each element has at least one byte
			}
		}
		if *left < 0 {
			return errParts
		}
	}
	return nil
}

// errLongError means that an error reply of a machine is too long.
var errLongError = errors.New("the machine sent an error that is too long")

// boundedError is the body of a failed request.
type boundedError struct {
	io.ReadCloser
	left int
}

// Read implements [io.Reader].
func (b *boundedError) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errLongError
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// flagEndStream marks the last message of a Connect stream, which is JSON.
const flagEndStream = 2

// boundedStream is the body of a Connect stream.
type boundedStream struct {
	io.ReadCloser
	prefix [prefixSize]byte
	have   int    // bytes of the current prefix
	body   uint32 // bytes that follow the last prefix
}

// Read implements [io.Reader].
func (b *boundedStream) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if b.body > 0 {
			skip := min(uint32(len(rest)), b.body) //nolint:gosec // a read is no longer than its buffer
			b.body -= skip
			rest = rest[skip:]
			continue
		}
		k := copy(b.prefix[b.have:], rest)
		b.have += k
		rest = rest[k:]
		if b.have < prefixSize {
			continue
		}
		b.have, b.body = 0, binary.BigEndian.Uint32(b.prefix[1:])
		if b.prefix[0]&flagEndStream != 0 && b.body > maxErrorBody {
			return 0, errLongError
		}
	}
	return n, err
}
