package rest

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"aloft/internal/fault"
)

// Limiter is a token bucket for each key or user. A bucket holds one minute's
// requests and refills evenly over a minute.
type Limiter struct {
	PerMinute int              // 0 means no limit
	Now       func() time.Time // the clock

	mu  sync.Mutex
	due map[int64]time.Time // by key or user: when the bucket will be full again
}

// maxIdle is how many buckets are kept before full ones are dropped.
const maxIdle = 1024

// RateHeaders are the headers that a limiter sets.
var RateHeaders = []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"}

// NewLimiter returns a limiter of that many requests per minute; 0 means no limit.
func NewLimiter(perMinute int) *Limiter {
	return &Limiter{PerMinute: perMinute, Now: time.Now, due: map[int64]time.Time{}}
}

// Take counts a request of the key or user, and sets the headers that say how
// many are left. Its error is a fault.
func (l *Limiter) Take(h http.Header, id int64) error {
	if l.PerMinute <= 0 {
		return nil
	}
	share := time.Minute / time.Duration(l.PerMinute)
	now := l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.due) > maxIdle {
		for other, due := range l.due {
			if !due.After(now) {
				delete(l.due, other)
			}
		}
	}
	due := l.due[id]
	if due.Before(now) {
		due = now
	}
	left := int((time.Minute - due.Sub(now)) / share)
	if left > 0 {
		left--
		due = due.Add(share)
		l.due[id] = due
		l.tell(h, left, due)
		return nil
	}
	l.tell(h, 0, due)
	wait := due.Add(share).Sub(now) - time.Minute
	h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
	return fault.Exhausted("more than %d such requests in a minute", l.PerMinute).Named("rate_limit_exceeded").
		Hint("wait for the number of seconds in Retry-After")
}

// tell sets the headers. reset is when the full limit is available again; the
// header gives it in seconds since 1970.
func (l *Limiter) tell(h http.Header, left int, reset time.Time) {
	h.Set("X-RateLimit-Limit", strconv.Itoa(l.PerMinute))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(int64(math.Ceil(float64(reset.UnixMilli())/1000)), 10))
}
