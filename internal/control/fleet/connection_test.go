package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/fleet"
	"aloft/internal/fault"
)

func TestIDNamesItsAgent(t *testing.T) {
	for _, id := range []string{agent.NewID(), "bc-ABCDEF00-0000-4000-8000-00000000000F"} {
		if got, ok := fleet.AgentOf(fleet.NewID(id)); !ok || got != id {
			t.Errorf("the machine of %s is %s's", id, got)
		}
	}
	for _, name := range []string{"", "bc-1", "other", "bc-00000000-0000-4000-8000-000000000000", "bc-00000000-0000-4000-8000-000000000000-zz99"} {
		if got, ok := fleet.AgentOf(name); ok {
			t.Errorf("%q is taken for a machine of %s", name, got)
		}
	}
}

// TestAlone checks that a machine in use cannot be reserved, that an unused
// machine can be reserved once, and that the time of its last use is known.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all fleet.Connections
		if !all.LastUse("m").IsZero() || all.Leaving("m") != nil {
			t.Error("an unknown machine is in use")
		}
		first, second := all.Use("m"), all.Use("m")
		if first != second {
			t.Error("two users have two connections")
		}
		if _, ok := all.Alone("m"); ok {
			t.Error("a machine in use was reserved")
		}
		over := all.Leaving("m")
		all.Leave("m", first)
		select {
		case <-over:
			t.Error("the first that leaves counts as the last")
		default:
		}
		all.Leave("m", second)
		<-over
		left := time.Now()
		time.Sleep(time.Second)
		if got := all.LastUse("m"); !got.Equal(left) {
			t.Errorf("last used at %v, want %v", got, left)
		}
		giveBack, ok := all.Alone("m")
		if !ok {
			t.Fatal("an unused machine was not reserved")
		}
		if _, ok := all.Alone("m"); ok {
			t.Error("a machine was reserved twice")
		}
		giveBack()
		if giveBack, ok = all.Alone("m"); !ok {
			t.Error("a machine that was given back cannot be reserved")
		}
		giveBack()
	})
}

// A machine has a limited number of visitors; its loop is not one of them.
func TestVisitorsOfAMachine(t *testing.T) {
	t.Parallel()
	var all fleet.Connections
	var last *fleet.Connection
	for n := range 1000 {
		l, err := all.Visit("m")
		if fault.Is(err, fault.KindExhausted) {
			if n != 512 {
				t.Errorf("visitor %d is refused, want 513", n+1)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = l
	}
	if _, err := all.Visit("m"); !fault.Is(err, fault.KindExhausted) {
		t.Errorf("the last visitor: %v", err)
	}
	if _, err := all.Visit("other"); err != nil {
		t.Errorf("another machine: %v", err)
	}
	loop := all.Use("m")
	all.Leave("m", loop)
	all.Leave("m", last)
	if _, err := all.Visit("m"); err != nil {
		t.Errorf("after one has left: %v", err)
	}
}
