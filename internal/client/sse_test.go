package client

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func readFrames(r io.Reader) (all []frame, err error) {
	in := newFrames(r)
	for {
		f, err := in.next()
		if err != nil {
			return all, err
		}
		all = append(all, f)
	}
}

func TestFrames(t *testing.T) {
	opt := cmp.AllowUnexported(frame{})
	for _, tt := range []struct {
		name, in string
		want     []frame
		cut      bool
	}{
		{"One", "id: 7\nevent: assistant\ndata: {\"text\":\"a\"}\n\n", []frame{{"7", true, "assistant", []byte(`{"text":"a"}`)}}, false},
		{"NoSpace", "event:status\ndata:{}\n\n", []frame{{"", false, "status", []byte("{}")}}, false},
		{"ManyLines", "data: {\ndata: }\n\n", []frame{{"", false, "", []byte("{\n}")}}, false},
		{"Returns", "data: a\r\n\r\ndata: b\r\rdata: c\n\n", []frame{{data: []byte("a")}, {data: []byte("b")}, {data: []byte("c")}}, false},
		{"Comments", ": hello\n\nretry: 5\nfoo\ndata: a\n\n", []frame{{data: []byte("a")}}, false},
		{"ByteOrderMark", "\ufeffdata: a\n\n", []frame{{data: []byte("a")}}, false},
		{"CutOffEventDoesNotCount", "data: a\n\ndata: b\n", []frame{{data: []byte("a")}}, false},
		{"CutOffLine", "data: a\n\ndat", []frame{{data: []byte("a")}}, true},
		{"EmptyData", "event: done\ndata\n\n", []frame{{event: "done"}}, false},
		{"EventWithoutData", "event: x\n\ndata: a\n\n", []frame{{data: []byte("a")}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"whole": strings.NewReader(tt.in), "bytes": iotest.OneByteReader(strings.NewReader(tt.in)),
			} {
				got, err := readFrames(r)
				if diff := cmp.Diff(tt.want, got, opt, cmp.Transformer("text", func(b []byte) string { return string(b) })); diff != "" {
					t.Errorf("%s: frames differ (-want +got):\n%s", name, diff)
				}
				if want := map[bool]error{false: io.EOF, true: io.ErrUnexpectedEOF}[tt.cut]; !errors.Is(err, want) {
					t.Errorf("%s: error is %v; want %v", name, err, want)
				}
			}
		})
	}
}

func TestLongLineIsRefused(t *testing.T) {
	if _, err := readFrames(io.LimitReader(zeros{}, maxLine*2)); !errors.Is(err, errLongLine) {
		t.Errorf("error is %v", err)
	}
	short := strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", maxLine>>20+1)
	if _, err := readFrames(strings.NewReader(short)); !errors.Is(err, errLongLine) {
		t.Errorf("error of many lines is %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// FuzzFrames checks that no input makes the parser fail before its end, and
// that the result does not depend on how the input is split.
func FuzzFrames(f *testing.F) {
	f.Add("id: 7\nevent: assistant\ndata: {\"text\":\"a\"}\n\n")
	f.Add("data: a\r\n\r\ndata: b\r\rdata\n\n: c")
	f.Add("\ufeffid: \x00\n\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		whole, err := readFrames(strings.NewReader(in))
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("error is %v", err)
		}
		pieces, again := readFrames(iotest.OneByteReader(strings.NewReader(in)))
		if diff := cmp.Diff(whole, pieces, cmp.AllowUnexported(frame{})); diff != "" || !errors.Is(again, err) {
			t.Fatalf("byte by byte differs, %v:\n%s", again, diff)
		}
		for _, fr := range whole {
			if strings.ContainsAny(fr.id+fr.event, "\r\n") {
				t.Errorf("a line's end is in %q or %q", fr.id, fr.event)
			}
		}
	})
}
