package machinerpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"pgregory.net/rapid"
)

// message returns a message with its length prefix.
func message(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(payload))), payload...)
}

func TestMessagesComeWithTheirPrefix(t *testing.T) {
	r, w := io.Pipe()
	body := &messages{body: r}
	broken := errors.New("broken")
	go func() {
		for _, payload := range []string{"first", "", "12345678"} {
			all := message([]byte(payload))
			_, _ = w.Write(all[:prefixSize]) // the reader returns the error
			if payload != "" {
				_, _ = w.Write(all[prefixSize:])
			}
		}
		w.CloseWithError(broken)
	}()
	buf := make([]byte, prefixSize+6)
	for _, want := range [][]byte{message([]byte("first")), message(nil), message([]byte("12345678"))[:prefixSize+6], []byte("78")} {
		n, err := body.Read(buf)
		if err != nil || !bytes.Equal(buf[:n], want) {
			t.Errorf("read %q, %v; want %q", buf[:n], err, want)
		}
	}
	if n, err := body.Read(buf); n != 0 || !errors.Is(err, broken) {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// TestMessagesAreWhole reads bodies of arbitrary messages, split at any position, into
// buffers of any size.
func TestMessagesAreWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		for _, payload := range rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 20), 0, 5).Draw(t, "payloads") {
			all = append(all, message(payload)...)
		}
		all = all[:rapid.IntRange(0, len(all)).Draw(t, "length")]
		body := &messages{body: io.NopCloser(bytes.NewReader(all))}
		var got []byte
		for {
			buf := make([]byte, rapid.IntRange(1, 30).Draw(t, "buffer"))
			n, err := body.Read(buf)
			got = append(got, buf[:n]...)
			if err == io.EOF { //nolint:errorlint // a Reader's end
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, all) {
			t.Errorf("read %q; want %q", got, all)
		}
	})
}
