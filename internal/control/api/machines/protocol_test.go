package machines

import (
	"strings"
	"testing"
)

func FuzzProtocolOf(f *testing.F) {
	for _, s := range []string{"RFB 003.008\n", "RFB 004.001\n", "RFB 3.8\n", "RFB 003.889\n", "220 mail.exam", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, hello []byte) {
		v, ok := protocolOf(hello)
		if ok && (len(hello) != helloSize || len(v) > 7 || strings.Trim(v, "0123456789.") != "") || !ok && v != "" {
			t.Errorf("%q is %q, %v", hello, v, ok)
		}
	})
}
