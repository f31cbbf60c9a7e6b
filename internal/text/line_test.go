package text

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReadLine(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader("a\n\n"+strings.Repeat("x", 50)+"\nunfinished"), 16)
	for _, want := range []string{"a", "", strings.Repeat("x", 16)} {
		if got, err := ReadLine(r); got != want || err != nil {
			t.Errorf("%q instead of %q, %v", got, want, err)
		}
	}
	if got, err := ReadLine(r); got != "unfinished" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a line without an end: %q, %v", got, err)
	}
	if _, err := ReadLine(r); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}
