package allowance

import "testing"

func TestStrictest(t *testing.T) {
	got := Strictest(Amount{Turns: 5, Cost: 9}, Amount{Turns: 7, Tokens: 3}, Amount{Cost: 2, Seconds: 60})
	if want := (Amount{Turns: 5, Tokens: 3, Cost: 2, Seconds: 60}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Strictest(); got != (Amount{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestSpent(t *testing.T) {
	limit := Amount{Turns: 2, Seconds: 10}
	for _, c := range []struct {
		used Amount
		want Kind
	}{
		{Amount{}, ""}, {Amount{Turns: 1, Tokens: 1e9, Cost: 1e9, Seconds: 9}, ""}, {Amount{Turns: 2, Seconds: 10}, Turns}, {Amount{Seconds: 11}, Time},
	} {
		if got := limit.Spent(c.used); got != c.want {
			t.Errorf("of %+v: %q, want %q", c.used, got, c.want)
		}
	}
}

func TestWithin(t *testing.T) {
	most := Amount{Tokens: 100}
	for asked, want := range map[Amount]Kind{{}: "", {Turns: 1e6}: "", {Tokens: 100}: "", {Tokens: 101}: Tokens} {
		if got := asked.FirstAbove(most); got != want {
			t.Errorf("%+v: %q, want %q", asked, got, want)
		}
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		of   Amount
		kind Kind
		want string
	}{
		{Amount{Turns: 20}, Turns, "20 turns"}, {Amount{Turns: 1}, Turns, "1 turn"}, {Amount{Tokens: 3000}, Tokens, "3000 tokens"}, {Amount{Cost: 1_250_000_000}, Cost, "$1.25"},
		{Amount{Seconds: 5400}, Time, "1h30m"}, {Amount{Seconds: 90}, Time, "1m30s"}, {Amount{Seconds: 3600}, Time, "1h0m"}, {Amount{Seconds: 5}, Time, "5s"}, {Amount{}, Time, "0s"},
	} {
		if got := c.of.Text(c.kind); got != c.want {
			t.Errorf("%+v: %q, want %q", c.of, got, c.want)
		}
	}
}
