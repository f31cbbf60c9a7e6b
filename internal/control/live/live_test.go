package live

import (
	"strings"
	"testing"
)

func TestBoard(t *testing.T) {
	var b Board
	b.Write("bc-1", Piece{RunID: "run-1", CallID: "c1", Name: "Write", Text: `{"path"`})
	w := b.Watch("bc-1")
	told := 0
	stop := w.OnNews(func() { told++ })
	if told != 1 {
		t.Errorf("a watcher that comes late is told %d times", told)
	}
	stop()
	if got := w.Read(); len(got) != 1 || got[0].Args != `{"path"` || got[0].Name != "Write" {
		t.Fatalf("read %+v", got)
	}
	w.OnNews(func() { told++ })
	b.Write("bc-2", Piece{CallID: "c1", Text: "another agent's"})
	if told != 1 {
		t.Error("told of another agent")
	}
	b.Write("bc-1", Piece{RunID: "run-1", CallID: "c1", Text: `:"a"`})
	b.Write("bc-1", Piece{RunID: "run-1", CallID: "c1", Text: `}`})
	b.Write("bc-1", Piece{RunID: "run-1", CallID: "c2", Task: "t1", Name: "Shell", Text: "{"})
	if told != 2 {
		t.Errorf("told %d times of what one Read returns", told-1)
	}
	got := w.Read()
	if len(got) != 2 || got[0].Args != `{"path":"a"}` || got[1].Task != "t1" {
		t.Fatalf("read %+v", got)
	}
	b.Clear("bc-1", "")
	if left := w.Read(); len(left) != 1 || left[0].CallID != "c2" {
		t.Errorf("left %+v", left)
	}
	b.Write("bc-1", Piece{RunID: "run-1", CallID: "c1", Text: "again"})
	if again := w.Read(); len(again) != 2 || again[1].Args != "again" || again[1].Serial == got[0].Serial {
		t.Errorf("asked for again: %+v", again)
	}
	w.Close()
	for _, task := range []string{"", "t1"} {
		b.Clear("bc-1", task)
	}
	b.Clear("bc-2", "")
	if len(b.pages) != 0 {
		t.Errorf("%d pages are kept of what is over", len(b.pages))
	}
}

func TestBounds(t *testing.T) {
	var b Board
	for range 3 {
		b.Write("bc-1", Piece{CallID: "c", Text: strings.Repeat("x", MaxArgs/2+1)})
	}
	for n := range 2 * MaxCalls {
		b.Write("bc-1", Piece{CallID: strings.Repeat("y", n+2)})
	}
	got := b.Watch("bc-1").Read()
	if len(got) != MaxCalls || len(got[0].Args) != MaxArgs || !got[0].Cut || got[1].Cut {
		t.Errorf("%d calls, the first of %d bytes, cut %v", len(got), len(got[0].Args), got[0].Cut)
	}
}

func TestNilBoard(t *testing.T) {
	var b *Board
	b.Write("bc-1", Piece{CallID: "c"})
	b.Clear("bc-1", "")
	w := b.Watch("bc-1")
	defer w.Close()
	w.OnNews(func() { t.Error("told of something") })()
	if got := w.Read(); got != nil {
		t.Errorf("read %+v", got)
	}
}
