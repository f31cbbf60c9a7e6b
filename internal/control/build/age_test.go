package build

import (
	"testing"
	"time"
)

func TestYoung(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		at   time.Time
		age  time.Duration
		want bool
	}{
		"JustNow":         {now, time.Hour, true},
		"Old":             {now.Add(-2 * time.Hour), time.Hour, false},
		"ClockSetBack":    {now.Add(30 * time.Minute), time.Hour, true},
		"ClockWasWrong":   {now.Add(24 * 365 * time.Hour), time.Hour, false},
		"NoAgeAtAll":      {now, 0, false},
		"BeforeAllClocks": {time.Time{}, time.Hour, false},
	} {
		if got := isYoung(c.at, c.age); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestExpired checks that a clock that jumps ahead removes nothing until the
// grace period has passed.
func TestExpired(t *testing.T) {
	now := time.Now()
	e := expired{now: func() time.Time { return now }}
	if e.due("x", true) {
		t.Error("it is removed as soon as it is found too old")
	}
	now = now.Add(grace / 2)
	if e.due("x", true) || e.due("x", false) {
		t.Error("it is removed within the grace")
	}
	now = now.Add(grace)
	if e.due("x", true) {
		t.Error("the grace does not begin again when the clock was set right")
	}
	now = now.Add(grace)
	if !e.due("x", true) || e.due("y", true) {
		t.Error("it is not removed after the grace, or another is")
	}
}
