package secret

// Opened is a secret with its decrypted value. It must never be logged or
// stored.
type Opened struct {
	Secret
	Value string
}
