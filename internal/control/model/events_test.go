package model

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"aloft/internal/conversation"
)

func TestEventsAreMetered(t *testing.T) {
	list := "[" + strings.Repeat("0,", maxValues) + "0]"
	small := `data: {"a":[1,2,{"b":"\"[,,,\\"}]}` + "\r\n\r\n"
	long := strings.Repeat("x", maxEvent)
	for name, c := range map[string]struct {
		body  string
		whole bool
		ok    bool
	}{
		"many small events":           {strings.Repeat(small, maxValues), false, true},
		"text":                        {"data: \"" + strings.Repeat(",[{", maxValues) + "\"\n\n", false, true},
		"values":                      {"data: " + list + "\n\n", false, false},
		"values of an image's reply":  {list, true, false},
		"blank lines in a value":      {strings.Repeat("[0,\n\n", maxValues), true, false},
		"a quote before the value":    {": \"\nevent: \"\ndata: " + list + "\n\n", false, false},
		"a bracket before the value":  {"event: ]}\ndata: " + list + "\n\n", false, false},
		"a long event":                {"data: " + long + "\n\n", false, false},
		"several long events":         {"data: " + long[9:] + "\n\ndata: " + long[9:] + "\n\n", false, true},
		"a long reply with one value": {long + "x", true, true},
	} {
		most := maxEvent
		if c.whole {
			most = maxReply
		}
		body := &patientBody{body: io.NopCloser(iotest.HalfReader(strings.NewReader(c.body))), left: maxReply, most: most, values: maxValues}
		n, err := io.Copy(io.Discard, body)
		if e, ok := errors.AsType[*Error](err); (err == nil) != c.ok || !c.ok && (!ok || e.Reason != BadReply) {
			t.Errorf("%s: %v after %d bytes", name, err, n)
		}
	}
}

// A server's token counts can neither refund an allowance nor overflow a sum.
func TestImplausibleUsage(t *testing.T) {
	a := NewAssembly("p", "m", Request{})
	got := a.Reply(StopEnd, conversation.Usage{Input: math.MinInt64, Output: -1, CacheRead: math.MaxInt64, CacheWrite: 7}).Done.Usage
	if want := (conversation.Usage{CacheRead: maxTokens, CacheWrite: 7}); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}
