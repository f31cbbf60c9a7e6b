package account

import "time"

// Passkey is a passkey in a user's device. Only the public data is stored; the
// private key never leaves the device.
type Passkey struct {
	ID         []byte // of the credential
	UserID     int64
	Name       string // chosen by the user
	Credential []byte // JSON with which the passkey is verified
	CreatedAt  time.Time
	UsedAt     time.Time // zero if never
}
