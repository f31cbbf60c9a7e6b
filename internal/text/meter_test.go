package text

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestMeter checks which texts exceed 100 bytes or 10 values in one event, whatever
// the pieces in which they arrive.
func TestMeter(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"ten values":               {"[0,0,0,0,0,0,0,0,0,0]", true},
		"eleven values":            {"[0,0,0,0,0,0,0,0,0,0,0]", false},
		"commas in a string":       {`["` + strings.Repeat(",[{", 20) + `"]`, true},
		"a quote in a string":      {`["\"",` + strings.Repeat("0,", 10) + "0]", false},
		"a backslash in a string":  {`["\\",` + strings.Repeat("0,", 10) + "0]", false},
		"objects in a list":        {"[" + strings.Repeat("{},", 6) + "{}]", false},
		"small events":             {strings.Repeat("data: [0,0,0]\r\n\r\n", 50), true},
		"a line without the other": {strings.Repeat("data: [0,0,0]\n", 50), false},
		"blank lines in a value":   {strings.Repeat("[0,\n\n", 20), false},
		"a hundred bytes":          {strings.Repeat("x", 100), true},
		"a byte more":              {strings.Repeat("x", 101), false},
	} {
		for _, piece := range []int{1, 3, len(c.text)} {
			var m Meter
			ok := true
			for rest := c.text; rest != "" && ok; {
				n := min(piece, len(rest))
				ok = m.Count([]byte(rest[:n]), 100, 10)
				rest = rest[n:]
			}
			if ok != c.ok {
				t.Errorf("%s in pieces of %d bytes: accepted is %v", name, piece, ok)
			}
		}
	}
	var unlimited Meter
	if !unlimited.Count([]byte(strings.Repeat("x", 1000)), 0, 10) || unlimited.Size() != 1000 {
		t.Errorf("without a limit of bytes, %d were counted", unlimited.Size())
	}
}

// FuzzMeter checks that a document which the Meter accepts has at most as many values.
func FuzzMeter(f *testing.F) {
	f.Add(`{"a":[1,"\"",{}],"b":""}`)
	f.Fuzz(func(t *testing.T, text string) {
		var m Meter
		var v any
		if json.Unmarshal([]byte(text), &v) != nil || !m.Count([]byte(text), 0, 10) {
			return
		}
		// A container and each comma count; a list of n elements has n-1 commas.
		if n := values(v); n > 2*10+1 {
			t.Errorf("%q has %d values", text, n)
		}
	})
}

func values(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += values(e)
		}
	case map[string]any:
		for _, e := range v {
			n += values(e)
		}
	}
	return n
}
