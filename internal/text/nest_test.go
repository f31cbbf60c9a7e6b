package text

import (
	"testing"

	"github.com/tailscale/hujson"
)

func TestDeep(t *testing.T) {
	for text, deep := range map[string]bool{
		``: false, `[[[1]]]`: false, `[[[[1]]]]`: true, `{"a":{"b":[{}]}}`: true, `[[[`: false, `[[[[`: true,
		`["[[[[\"[["]`: false, `["\\",[[[1]]]]`: true, "// [[[[\n[1]": false, `/* [[[[ */ [[1]]`: false, `[/**/[/**/[/**/[`: true,
		`/* [[[[`: false, `[],[],[],[],[]`: false, "[//\n[//\n[//\n[": true, `{[[[[`: true, `[1,[2,[3,[],],],]`: true,
	} {
		if Deep([]byte(text), 3) != deep {
			t.Errorf("%q: deep is not %v", text, deep)
		}
	}
}

// FuzzDeep checks that hujson does not recurse deeper than Deep says.
func FuzzDeep(f *testing.F) {
	f.Add(`{"a":[1,"\"[",{}],/* [ */"b":[[]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := hujson.Parse([]byte(text))
		if err != nil || Deep([]byte(text), 3) {
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
