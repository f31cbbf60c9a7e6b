package automation

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The database of time zones is compiled in, so that the tests do not depend on
// the host's.
func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	at, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestNext(t *testing.T) {
	const layout = "2006-01-02 15:04 -0700"
	for _, tt := range []struct{ name, cron, zone, after, want string }{
		{"daily", "0 3 * * *", "UTC", "2026-01-31 03:00 +0000", "2026-02-01 03:00 +0000"},
		{"a second before", "0 3 * * *", "UTC", "2026-01-31 02:59 +0000", "2026-01-31 03:00 +0000"},
		{"weekdays", "30 9 * * mon-fri", "UTC", "2026-11-27 09:30 +0000", "2026-11-30 09:30 +0000"},
		{"Sunday as 7", "0 0 * * 7", "UTC", "2026-11-27 00:00 +0000", "2026-11-29 00:00 +0000"},
		{"either day field", "0 0 13 * fri", "UTC", "2026-11-10 00:00 +0000", "2026-11-13 00:00 +0000"},
		{"either day field, the second", "0 0 20 * mon", "UTC", "2026-11-17 00:00 +0000", "2026-11-20 00:00 +0000"},
		{"steps and lists", "5,10-20/5 */6 * * *", "UTC", "2026-11-10 06:15 +0000", "2026-11-10 06:20 +0000"},
		{"step from a number", "50/5 * * * *", "UTC", "2026-11-10 06:50 +0000", "2026-11-10 06:55 +0000"},
		{"leap day", "0 0 29 2 *", "UTC", "2096-03-01 00:00 +0000", "2104-02-29 00:00 +0000"},
		{"name", "@monthly", "UTC", "2026-12-05 00:00 +0000", "2027-01-01 00:00 +0000"},
		{"half-hour zone", "0 9 * * *", "Asia/Kolkata", "2026-05-01 09:00 +0530", "2026-05-02 09:00 +0530"},

		{"skipped time counts at the end of the gap", "30 2 * * *", "Europe/Berlin", "2026-03-28 02:30 +0100", "2026-03-29 03:00 +0200"},
		{"and the day after as usual", "30 2 * * *", "Europe/Berlin", "2026-03-29 03:00 +0200", "2026-03-30 02:30 +0200"},
		{"the end of the gap itself", "0 3 * * *", "Europe/Berlin", "2026-03-28 03:00 +0100", "2026-03-29 03:00 +0200"},
		{"elapsed time skips the gap", "0 * * * *", "Europe/Berlin", "2026-03-29 01:00 +0100", "2026-03-29 03:00 +0200"},
		{"elapsed minutes skip the gap", "30 */1 * * *", "Europe/Berlin", "2026-03-29 01:30 +0100", "2026-03-29 03:30 +0200"},
		{"repeated time counts first", "30 2 * * *", "Europe/Berlin", "2026-10-24 02:30 +0200", "2026-10-25 02:30 +0200"},
		{"and not again", "30 2 * * *", "Europe/Berlin", "2026-10-25 02:30 +0200", "2026-10-26 02:30 +0100"},
		{"started between the two", "30 2 * * *", "Europe/Berlin", "2026-10-25 02:45 +0200", "2026-10-26 02:30 +0100"},
		{"elapsed time counts both", "30 * * * *", "Europe/Berlin", "2026-10-25 02:30 +0200", "2026-10-25 02:30 +0100"},
		{"after the repeated hour", "0 3 * * *", "Europe/Berlin", "2026-10-24 03:00 +0200", "2026-10-25 03:00 +0100"},
		{"half an hour forward", "10 2 * * *", "Australia/Lord_Howe", "2026-10-03 02:10 +1030", "2026-10-04 02:30 +1100"},
		{"half an hour back", "45 1 * * *", "Australia/Lord_Howe", "2026-04-05 01:45 +1100", "2026-04-06 01:45 +1030"},
		{"midnight is skipped", "0 0 * * *", "America/Santiago", "2026-09-05 00:00 -0400", "2026-09-06 01:00 -0300"},
		{"midnight of a Sunday is skipped", "15 0 * * sun", "America/Santiago", "2026-09-01 00:00 -0400", "2026-09-06 01:00 -0300"},
		{"midnight of a Saturday is not", "0 0 * * sat", "America/Santiago", "2026-09-05 00:00 -0400", "2026-09-12 00:00 -0300"},
		{"midnight is repeated", "30 23 * * sat", "America/Santiago", "2026-04-04 23:30 -0300", "2026-04-11 23:30 -0400"},
		{"a day is skipped", "0 12 30 12 *", "Pacific/Apia", "2011-12-01 00:00 -1000", "2012-12-30 12:00 +1400"},
		{"the day after the skipped day", "0 0 31 12 *", "Pacific/Apia", "2011-12-01 00:00 -1000", "2011-12-31 00:00 +1400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := ParseCron(tt.cron)
			if err != nil {
				t.Fatal(err)
			}
			after, err := time.Parse(layout, tt.after)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := c.Next(after.In(zone(t, tt.zone)))
			if !ok || got.Format(layout) != tt.want {
				t.Errorf("after %s: %s, want %s", tt.after, got.Format(layout), tt.want)
			}
		})
	}
}

// A time of the day counts once on each day, whatever the clock does.
func TestOnceADay(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Gaza", "America/Havana", "UTC"} {
		at := zone(t, name)
		for range 40 {
			c := Cron{minute: 1 << random.IntN(60), hour: 1 << random.IntN(24), day: ^uint64(0), month: ^uint64(0), weekday: ^uint64(0), anyDay: true, anyWeekday: true}
			seen := map[string]bool{}
			begin := time.Date(2026, 1, 1, 0, 0, 0, 0, at)
			for next, ok := c.Next(begin.Add(-time.Minute)); next.Year() == 2026; next, ok = c.Next(next) {
				if !ok || seen[next.Format(time.DateOnly)] {
					t.Fatalf("%s, %+v: twice on %s", name, c, next)
				}
				seen[next.Format(time.DateOnly)] = true
			}
			if len(seen) != 365 {
				t.Fatalf("%s, %+v: %d days", name, c, len(seen))
			}
		}
	}
}

func TestNever(t *testing.T) {
	c, err := ParseCron("0 0 31 2 *")
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := c.Next(time.Now()); ok {
		t.Errorf("February 31 is %s", at)
	}
}

func TestInvalidCron(t *testing.T) {
	for text, want := range map[string]string{
		"": "0 fields", "* * * *": "4 fields", "60 * * * *": "minute: invalid value \"60\"", "* 24 * * *": "hour", "* * 0 * *": "day of the month", "* * * 13 *": "month",
		"* * * * 8": "day of the week", "*/0 * * * *": "step", "5-1 * * * *": "range", "-1 * * * *": "invalid value", "+1 * * * *": "invalid value", "1, * * * *": "invalid value",
		"* * * foo *": "foo", "@never": "1 fields", "TZ=UTC 0 0 * * *": "6 fields", strings.Repeat("1,", 200) + "1 * * * *": "200",
	} {
		if _, err := ParseCron(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Whatever the text, a schedule is refused, or its next time is soon found,
// after the given time, and a whole minute.
func FuzzCron(f *testing.F) {
	for _, seed := range []string{"0 3 * * 1-5", "@daily", "*/15 2-4,9 29 2 sun", "0 0 31 2 *"} {
		f.Add(seed, int64(1_774_746_000), uint8(0))
	}
	zones := []*time.Location{time.UTC, zone(f, "Europe/Berlin"), zone(f, "Australia/Lord_Howe"), zone(f, "America/Santiago"), zone(f, "Pacific/Apia")}
	f.Fuzz(func(t *testing.T, text string, seconds int64, where uint8) {
		c, err := ParseCron(text)
		if err != nil {
			return
		}
		after := time.Unix(1e9+(seconds&0x7fffffff), 0).In(zones[int(where)%len(zones)])
		at, ok := c.Next(after)
		if ok && (!at.After(after) || at.Second() != 0) {
			t.Errorf("%q after %s: %s", text, after, at)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	berlin := zone(b, "Europe/Berlin")
	for _, text := range []string{"*/5 * * * *", "30 2 * * *", "0 0 29 2 *", "0 0 31 2 *"} {
		b.Run(text, func(b *testing.B) {
			c, err := ParseCron(text)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				c.Next(time.Date(2026, 3, 1, 0, 0, 0, 0, berlin))
			}
		})
	}
}
