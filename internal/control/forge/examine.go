package forge

import "context"

// Examining is a [Forge] that can say what the token for a repository is good
// for.
type Examining interface {
	// Examine says what the token for the repository lacks, as far as the host
	// tells. Nothing is changed at the host, and the repository need not be there.
	// The error is a fault where the token is not taken, or the host not reached.
	Examine(ctx context.Context, r Repo) (Grant, error)
}

// Grant is what a host says of a token.
type Grant struct {
	Login string   // whose it is; "" where the host does not tell
	Lacks []string // the scopes without which it cannot push, or not open pull requests
	Told  bool     // the host tells of scopes; else Lacks is empty whatever it may
}
