package text

import (
	"testing"

	"github.com/tailscale/hujson"
)

func TestCheckJSON(t *testing.T) {
	for text, deep := range map[string]bool{
		``: false, `[[[1]]]`: false, `[[[[1]]]]`: true, `{"a":{"b":[{}]}}`: true, `[[[`: false, `[[[[`: true,
		`["[[[[\"[["]`: false, `["\\",[[[1]]]]`: true, "// [[[[\n[1]": false, `/* [[[[ */ [[1]]`: false, `[/**/[/**/[/**/[`: true,
		`/* [[[[`: false, `[],[],[],[],[]`: false, "[//\n[//\n[//\n[": true, `{[[[[`: true, `[1,[2,[3,[],],],]`: true,
	} {
		if err := checkJSON([]byte(text), 3, 100); (err != nil) != deep {
			t.Errorf("%q: error is %v, want one: %v", text, err, deep)
		}
	}
	for text, many := range map[string]bool{
		`[1,2,3,4,5]`: false, `[1,2,3,4,5,6]`: true, `[{},{},{}]`: true, `[{},{}]`: false, `["{},{},{},{}"]`: false, `[/*"*/{},{},{},{}]`: true, "[// {},{},{},{},\n]": false,
	} {
		if err := checkJSON([]byte(text), 3, 5); (err != nil) != many {
			t.Errorf("%q: error is %v, want one: %v", text, err, many)
		}
	}
}

// FuzzCheckJSON checks that hujson does not recurse deeper than checkJSON allows.
func FuzzCheckJSON(f *testing.F) {
	f.Add(`{"a":[1,"\"[",{}],/* [ */"b":[[]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := hujson.Parse([]byte(text))
		if err != nil || checkJSON([]byte(text), 3, 1000) != nil {
			return
		}
		if n := levels(v); n > 3 {
			t.Errorf("%q nests %d deep", text, n)
		}
	})
}

func levels(v hujson.Value) int {
	most := 0
	switch of := v.Value.(type) {
	case *hujson.Array:
		for _, e := range of.Elements {
			most = max(most, levels(e))
		}
	case *hujson.Object:
		for _, m := range of.Members {
			most = max(most, levels(m.Value))
		}
	default:
		return 0
	}
	return most + 1
}
