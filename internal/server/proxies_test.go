package server

import "testing"

func TestTrustedProxies(t *testing.T) {
	got, err := trustedProxies([]string{"10.0.0.0/8", "127.0.0.1", "::1"})
	if err != nil || len(got) != 3 || got[1].String() != "127.0.0.1/32" || got[2].String() != "::1/128" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"0.0.0.0/0", "::/0", "proxy.example.com", ""} {
		if _, err := trustedProxies([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
