package policy

import "time"

// Connection is what is known of one connection that was judged, or of a name
// that was not looked up.
type Connection struct {
	Seq       uint64    `json:"seq"` // in the order of their ends, from 1; 0 while it is open
	StartedAt time.Time `json:"startedAt"`
	Network   string    `json:"network"`           // tcp, udp or dns
	Address   string    `json:"address,omitempty"` // address:port
	Domain    string    `json:"domain,omitempty"`  // what had been looked up for it, several with spaces
	Sent      int64     `json:"sentBytes"`         // from inside
	Received  int64     `json:"receivedBytes"`
	Duration  int64     `json:"durationMs"`
	Allowed   bool      `json:"allowed"`
	Rule      string    `json:"rule"`            // what decided
	Error     string    `json:"error,omitempty"` // why an allowed one came to nothing, or was cut
}

// Connections are those of one machine.
type Connections struct {
	Open  []Connection `json:"open"`  // the oldest first
	Ended []Connection `json:"ended"` // by Seq, which has no gaps but where old ones are forgotten
}
