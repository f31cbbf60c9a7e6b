package account

import "time"

// Passkey is a key in a person's device. What it is proven by is kept; the key
// itself never leaves the device.
type Passkey struct {
	ID         []byte // of the credential
	UserID     int64
	Name       string // what the person calls it
	Credential []byte // JSON of what the key is verified with
	CreatedAt  time.Time
	UsedAt     time.Time // zero for never
}
