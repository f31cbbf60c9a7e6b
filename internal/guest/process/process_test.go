package process

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzMark(f *testing.F) {
	f.Add([]byte("A=b\x00ALOFT_PROCESS=web\x00C=d\x00"))
	f.Fuzz(func(t *testing.T, env []byte) {
		if m := mark(env); m != "" && !strings.Contains(string(env), Variable+"="+m) {
			t.Errorf("%q", m)
		}
	})
}

func TestOutput(t *testing.T) {
	t.Parallel()
	var o Output
	o.write(strings.Repeat("ä", maxPrinted))
	o.write("end")
	text, next, skipped := o.Read(0)
	if len(text) > maxPrinted || !utf8.ValidString(text) || !strings.HasSuffix(text, "äend") || next != 2*maxPrinted+3 || skipped != next-int64(len(text)) {
		t.Errorf("%d bytes, next %d, skipped %d", len(text), next, skipped)
	}
	if text, again, skipped := o.Read(next); text != "" || again != next || skipped != 0 {
		t.Errorf("%q, %d, %d", text, again, skipped)
	}
	if text, _, _ := o.Read(next + 100); text != "" {
		t.Errorf("%q", text)
	}
}
