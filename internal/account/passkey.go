package account

import "time"

// Passkey is a passkey in a user's device. Only the public data is stored; the
// private key never leaves the device.
type Passkey struct {
	ID         []byte // id of the credential
	UserID     int64
	Name       string // chosen by the user
	Credential []byte // JSON that is needed to verify the passkey
	CreatedAt  time.Time
	UsedAt     time.Time // zero if never
}
