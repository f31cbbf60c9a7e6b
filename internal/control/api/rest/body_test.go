package rest

import (
	"runtime"
	"strings"
	"testing"

	"aloft/internal/fault"
)

// A body of many values must not take many times its size in memory.
func TestBodyOfManyValues(t *testing.T) {
	type element struct {
		A, B, C, D string
		E          map[string]string
	}
	var in struct {
		List []element `json:"list"`
	}
	body := []byte(`{"list":[` + strings.Repeat("{},", 1<<20) + "{}]}")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Decode(body, &in)
	runtime.ReadMemStats(&after)
	if fault.Of(err).Code != CodeTooLong {
		t.Errorf("error is %v", err)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 8 {
		t.Errorf("it allocates %d MiB", used)
	}
	if err := Decode([]byte(`{"list":[`+strings.Repeat("{},", 1000)+"{}]}"), &in); err != nil || len(in.List) != 1001 {
		t.Errorf("a body of 1,001 elements: %v, %d", err, len(in.List))
	}
}
