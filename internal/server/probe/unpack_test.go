package probe

import (
	"strings"
	"testing"
)

// TestUnpack checks that the doctor command reports that unpacking is confined,
// or why it is not.
func TestUnpack(t *testing.T) {
	check, err := Unpack()
	if err != nil || check.OK == strings.Contains(check.Detail, "the server itself") || check.OK != (check.Fix == "") {
		t.Errorf("%+v, %v", check, err)
	}
}
