package account

import "time"

// Audit is an entry of the audit log.
type Audit struct {
	ID      int64
	Time    time.Time
	UserID  int64  // 0 if the user is unknown
	Address string // client address of the request
	Action  string // the operation of the API
	Target  string // the parameters in the operation's path
	Outcome string // ok, or the error code
}
