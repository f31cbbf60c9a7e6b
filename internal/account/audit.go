package account

import "time"

// Audit is one entry of the record of who has settled what.
type Audit struct {
	ID      int64
	Time    time.Time
	UserID  int64  // 0 where nobody was known
	Address string // whence the request came
	Action  string // the operation of the API
	Target  string // what it was about: the parameters of its path
	Outcome string // ok, or the code of the error
}
