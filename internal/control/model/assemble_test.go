package model

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"aloft/internal/conversation"
)

// A hostile server starts endless calls, and repeats a call's name with every
// piece of its arguments. The cost must stay proportional to the number of
// bytes.
func TestAssemblyOfHostilePieces(t *testing.T) {
	start := time.Now()
	a := NewAssembly("x", "m", Request{})
	for i := range 200_000 {
		key := "call " + strconv.Itoa(i)
		a.Call(key, "call_"+strconv.Itoa(i), "Shell")
		a.Args(key, "{}")
	}
	calls := a.Reply(StopCalls, conversation.Usage{}).Done.Message.Calls()
	if len(calls) != maxCalls || ReasonOf(a.Err()) != BadReply {
		t.Errorf("the reply has %d calls, and the error %v", len(calls), a.Err())
	}
	a = NewAssembly("x", "m", Request{})
	for i := range maxParts {
		if a.Text(strconv.Itoa(i), "x"); a.Err() != nil {
			t.Fatal(a.Err())
		}
	}
	a.Opaque("another", "x")
	if err := a.Err(); err == nil || !strings.Contains(err.Error(), "more than 1000 parts") {
		t.Errorf("after %d parts: %v", maxParts+1, err)
	}
	a = NewAssembly("x", "m", Request{})
	a.Call("c", "", "Shell")
	a.Args("c", `{"command":"`)
	piece := strings.Repeat("}", 512)
	for range 4 << 10 {
		if a.Whole("c") {
			t.Fatal("an unfinished string is whole")
		}
		a.Args("c", piece)
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("it took %v", d)
	}
	a = NewAssembly("x", "m", Request{})
	a.Call("c", "", "Shell")
	if a.Args("c", "{}"); !a.Whole("c") {
		t.Error("complete arguments are not whole")
	}
}
