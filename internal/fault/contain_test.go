package fault_test

import (
	"errors"
	"strings"
	"testing"

	"aloft/internal/fault"
)

// TestContain checks that a panic becomes an internal error whose stack appears
// only in the log, and that errors and nil are returned unchanged.
func TestContain(t *testing.T) {
	t.Parallel()
	want := errors.New("no")
	if err := fault.Contain(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	if err := fault.Contain(func() error { return nil }); err != nil {
		t.Error(err)
	}
	err := fault.Contain(func() error { panic("the list is empty") })
	f := fault.Of(err)
	if f.Kind != fault.KindInternal || strings.Contains(f.Message, "list") {
		t.Errorf("kind %v, message %q", f.Kind, f.Message)
	}
	if text := err.Error(); !strings.Contains(text, "the list is empty") || !strings.Contains(text, "contain_test.go") {
		t.Errorf("the log has %q", text)
	}
}
