package rest

import (
	"maps"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"aloft/internal/fault"
)

// Limiter has a token bucket for each user. A bucket holds one minute's
// requests, and an empty bucket refills evenly within a minute.
type Limiter struct {
	PerMinute int              // 0 means no limit
	Now       func() time.Time // the clock

	mu      sync.Mutex
	buckets map[int64]*rate.Limiter // by user
}

// maxIdle is how many buckets are kept before the full ones are dropped.
const maxIdle = 1024

// RateHeaders are the headers that a limiter sets.
var RateHeaders = []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"}

// NewLimiter returns a limiter of the given number of requests per minute; 0
// means no limit.
func NewLimiter(perMinute int) *Limiter {
	return &Limiter{PerMinute: perMinute, Now: time.Now, buckets: map[int64]*rate.Limiter{}}
}

// Take counts a request of the user, and sets the headers with the
// number of remaining requests. Its error is a fault.
func (l *Limiter) Take(h http.Header, userID int64) error {
	if l.PerMinute <= 0 {
		return nil
	}
	share := time.Minute / time.Duration(l.PerMinute)
	now := l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buckets) > maxIdle {
		maps.DeleteFunc(l.buckets, func(_ int64, b *rate.Limiter) bool { return b.TokensAt(now) >= float64(l.PerMinute) })
	}
	bucket := l.buckets[userID]
	if bucket == nil {
		bucket = rate.NewLimiter(rate.Every(share), l.PerMinute)
		l.buckets[userID] = bucket
	}
	taken := bucket.AllowN(now, 1)
	left := bucket.TokensAt(now)
	after := func(tokens float64) time.Duration { return time.Duration(max(0, tokens-left) * float64(share)) } // time until the bucket has that many tokens
	l.tell(h, int(left), now.Add(after(float64(l.PerMinute))))
	if taken {
		return nil
	}
	h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(after(1).Seconds())))))
	return fault.Exhausted("more than %d such requests in a minute", l.PerMinute).Named("rate_limit_exceeded").
		Hint("wait for the number of seconds in Retry-After")
}

// tell sets the headers. reset is the time when the full limit is available
// again; the header gives it in seconds since 1970.
func (l *Limiter) tell(h http.Header, left int, reset time.Time) {
	h.Set("X-RateLimit-Limit", strconv.Itoa(l.PerMinute))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(int64(math.Ceil(float64(reset.UnixMilli())/1000)), 10))
}
