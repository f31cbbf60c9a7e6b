package inbound

import (
	"errors"
	"testing"

	"aloft/internal/control/forge"
)

// TestCheckActorAsksNothing checks the changes for which the server need not ask a
// forge.
func TestCheckActorAsksNothing(t *testing.T) {
	for _, c := range []struct {
		change Change
		want   error
	}{
		{Change{Actor: "ci", Bot: true}, Ignored("ci is a bot")},
		{Change{}, nil},
	} {
		if err := c.change.CheckActor(t.Context(), nil, forge.Repo{}); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v; want %v", c.change, err, c.want)
		}
	}
}
