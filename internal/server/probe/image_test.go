package probe

import (
	"strings"
	"testing"

	"aloft/internal/control/image"
)

func TestImageChecks(t *testing.T) {
	for _, tt := range []struct {
		has  image.HostSummary
		ok   bool
		want string
	}{
		{image.HostSummary{Apt: true, Sources: 2, Sudo: true}, true, "apt-get, from 2 sources"},
		{image.HostSummary{Apt: true, Sources: 2, LeftOut: 1, Sudo: true}, true, "1 more are left out"},
		{image.HostSummary{Apt: true, Sources: 2}, false, "sudo is missing"},
		{image.HostSummary{Apt: true, Sudo: true, LeftOut: 1}, false, "no package source"},
		{image.HostSummary{Sudo: true}, false, "no apt"},
	} {
		c := imageChecks(tt.has)[0]
		if c.OK != tt.ok || !strings.Contains(c.Detail, tt.want) || c.OK == (c.Fix != "") || c.Required {
			t.Errorf("%+v: %+v, want %v with %q", tt.has, c, tt.ok, tt.want)
		}
	}
	if checks := Image(t.Context(), "debian:12"); len(checks) != 1 || !checks[0].OK {
		t.Errorf("an image that is not the host's: %+v", checks)
	}
}
