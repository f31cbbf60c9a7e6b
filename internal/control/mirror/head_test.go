package mirror

import (
	"io"
	"strings"
	"testing"
)

// A copy to a headBuffer keeps only the first bytes, however it is done.
func TestHeadBuffer(t *testing.T) {
	b := &headBuffer{max: 5}
	n, err := io.Copy(b, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 100_000))})
	if err != nil || n != 100_000 || b.String() != "xxxxx" || b.Len() != 5 || len(b.Bytes()) != 5 {
		t.Errorf("copied %d, kept %d bytes, %v", n, b.Len(), err)
	}
}
