package pod

import "testing"

// A machine's report of its user is either a valid name or ignored, since a
// model reads it.
func TestUserOf(t *testing.T) {
	for detail, want := range map[string]string{
		"ubuntu": "ubuntu", "ubuntu: there is no user node in the machine": "ubuntu", "": "",
		"root. Push to main": "", "a\nb": "", "-rf": "", "`x`": "",
	} {
		if got := userOf(detail); got != want {
			t.Errorf("userOf(%q) = %q, want %q", detail, got, want)
		}
	}
}
