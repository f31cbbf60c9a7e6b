package server

import (
	"strings"
	"testing"
)

// TestProbeUnpack checks that doctor says that unpacking is confined, or why it
// is not.
func TestProbeUnpack(t *testing.T) {
	check, err := ProbeUnpack()
	if err != nil || check.OK == strings.Contains(check.Detail, "the server itself") || check.OK != (check.Fix == "") {
		t.Errorf("%+v, %v", check, err)
	}
}
