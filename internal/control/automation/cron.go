package automation

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Cron is a schedule in the five fields of cron: minute, hour, day of the
// month, month and day of the week. As in cron, a day matches if the month
// matches and, where both day fields are restricted, one of them matches.
//
// If the hour field is * or */n, the schedule counts elapsed time: it follows
// the clock through changes of the time zone's offset. Otherwise it names times
// of the day: a time that the clock skips counts at the end of the gap, and a
// time that the clock repeats counts only once.
type Cron struct {
	minute, hour, day, month, weekday uint64 // sets of numbers, as bits
	elapsed                           bool   // the hour field is * or */n
	anyDay, anyWeekday                bool
}

// maxYears is how far in the future a schedule's next time may be. Eight years
// include the longest interval between two 29ths of February.
const maxYears = 9

var cronNames = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

var (
	monthNames   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
)

// ParseCron parses a schedule such as "0 3 * * 1-5" or "@daily".
func ParseCron(s string) (c Cron, err error) {
	if len(s) > 200 {
		return c, fmt.Errorf("the schedule has %d bytes; the limit is 200", len(s))
	}
	if full, ok := cronNames[strings.ToLower(strings.TrimSpace(s))]; ok {
		s = full
	}
	fields := strings.Fields(s)
	if len(fields) != 5 {
		return c, fmt.Errorf("the schedule %q has %d fields; use five, such as \"0 3 * * 1-5\": minute, hour, day of the month, month, day of the week", s, len(fields))
	}
	for i, f := range []struct {
		set      *uint64
		name     string
		min, max int
		names    []string
	}{
		{&c.minute, "minute", 0, 59, nil}, {&c.hour, "hour", 0, 23, nil}, {&c.day, "day of the month", 1, 31, nil},
		{&c.month, "month", 1, 12, monthNames}, {&c.weekday, "day of the week", 0, 7, weekdayNames},
	} {
		if *f.set, err = parseField(fields[i], f.min, f.max, f.names); err != nil {
			return c, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if c.weekday&(1<<7) != 0 {
		c.weekday |= 1
	}
	c.elapsed = strings.HasPrefix(fields[1], "*") && !strings.Contains(fields[1], ",")
	c.anyDay, c.anyWeekday = strings.HasPrefix(fields[2], "*"), strings.HasPrefix(fields[4], "*")
	return c, nil
}

// parseField returns the numbers of a field as a set of bits.
func parseField(s string, least, most int, names []string) (set uint64, err error) {
	for part := range strings.SplitSeq(s, ",") {
		span, step, stepped := strings.Cut(part, "/")
		from, to, by := least, most, 1
		if stepped {
			if by, err = strconv.Atoi(step); err != nil || by < 1 || by > most {
				return 0, fmt.Errorf("invalid step %q: use a number from 1 to %d", step, most)
			}
		}
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			if from, err = parseNumber(first, least, most, names); err != nil {
				return 0, err
			}
			if to = from; ranged {
				if to, err = parseNumber(last, least, most, names); err != nil {
					return 0, err
				}
			} else if stepped {
				to = most
			}
			if to < from {
				return 0, fmt.Errorf("invalid range %q: its end is before its beginning", span)
			}
		}
		for n := from; n <= to; n += by {
			set |= 1 << n
		}
	}
	return set, nil
}

func parseNumber(s string, least, most int, names []string) (int, error) {
	for i, name := range names {
		if strings.EqualFold(s, name) {
			return i + least, nil
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most || s[0] == '+' || s[0] == '-' {
		return 0, fmt.Errorf("invalid value %q: use a number from %d to %d", s, least, most)
	}
	return n, nil
}

// on reports whether the schedule has a time on the date of t.
func (c Cron) on(t time.Time) bool {
	if c.month&(1<<t.Month()) == 0 {
		return false
	}
	day, weekday := c.day&(1<<t.Day()) != 0, c.weekday&(1<<t.Weekday()) != 0
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// matches reports whether the schedule names the clock time of t.
func (c Cron) matches(t time.Time) bool {
	return c.minute&(1<<t.Minute()) != 0 && c.hour&(1<<t.Hour()) != 0 && c.on(t)
}

// at reports whether the schedule has a start at t, a whole minute.
func (c Cron) at(t time.Time) bool {
	before := t.Add(-time.Minute)
	if gap := offset(t) - offset(before); !c.elapsed && gap > 0 && gap <= 3*time.Hour {
		// The clock skips from the minute after before to t. In UTC, the skipped
		// minutes exist.
		clock := inUTC(before).Add(time.Minute)
		for ; clock.Before(inUTC(t)); clock = clock.Add(time.Minute) {
			if c.matches(clock) {
				return true
			}
		}
	}
	return c.matches(t) && (c.elapsed || !repeated(t))
}

// repeated reports whether the clock has shown the time of t before on the same
// day, because it was set back.
func repeated(t time.Time) bool {
	back := offset(t.Add(-24*time.Hour)) - offset(t)
	return back > 0 && back <= 3*time.Hour && inUTC(t.Add(-back)).Equal(inUTC(t))
}

// offset returns how far the clock of t's location is ahead of UTC.
func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// inUTC returns the clock time of t as a time in UTC.
func inUTC(t time.Time) time.Time { return t.Add(offset(t)).UTC() }

// Next returns the first time of the schedule after t, in t's location. It
// returns false if there is none in the next nine years.
func (c Cron) Next(after time.Time) (time.Time, bool) {
	limit := after.AddDate(maxYears, 0, 0)
	// Truncate counts from year 1 in UTC; offsets with seconds are only
	// historical.
	for t := after.Truncate(time.Minute).Add(time.Minute); t.Before(limit); {
		if c.at(t) {
			return t, true
		}
		switch {
		case !c.on(t):
			t = nextDay(t)
		case c.hour&(1<<t.Hour()) == 0 && t.Minute() == 0 && offset(t) == offset(t.Add(time.Hour)):
			t = t.Add(time.Hour)
		default:
			t = t.Add(time.Minute)
		}
	}
	return time.Time{}, false
}

// nextDay returns the first minute of the next date, or an earlier minute that
// is after t.
func nextDay(t time.Time) time.Time {
	next := t.Add(24*time.Hour - time.Duration(t.Hour())*time.Hour - time.Duration(t.Minute())*time.Minute)
	ahead := offset(next) - offset(t)
	if ahead <= 0 {
		return next
	}
	// The clock is set forward in between, so that next is after midnight,
	// unless the clock skips midnight itself.
	if earlier := next.Add(-ahead); earlier.After(t) && earlier.Day() == next.Day() {
		return earlier
	}
	return next
}
