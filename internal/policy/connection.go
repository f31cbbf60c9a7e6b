package policy

import "time"

// Connection describes one connection that was judged, or one refused name
// lookup.
type Connection struct {
	Seq       uint64    `json:"seq"` // order in which connections ended, from 1; 0 while open
	StartedAt time.Time `json:"startedAt"`
	Network   string    `json:"network"`           // tcp, udp or dns
	Address   string    `json:"address,omitempty"` // address:port
	Domain    string    `json:"domain,omitempty"`  // names that resolved to Address, separated by spaces
	Sent      int64     `json:"sentBytes"`         // sent by the machine
	Received  int64     `json:"receivedBytes"`
	Duration  int64     `json:"durationMs"`
	Allowed   bool      `json:"allowed"`
	Rule      string    `json:"rule"`            // the deciding rule
	Error     string    `json:"error,omitempty"` // why an allowed connection failed or was cut
}

// Connections are the connections of one machine.
type Connections struct {
	Open  []Connection `json:"open"`  // oldest first
	Ended []Connection `json:"ended"` // sorted by Seq, without gaps except for forgotten old ones
}
