package secret

// Opened is a secret with its value. It is never logged, and never kept.
type Opened struct {
	Secret
	Value string
}
