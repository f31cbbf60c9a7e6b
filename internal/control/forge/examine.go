package forge

import "context"

// Examining is a [Forge] that can tell which scopes a token lacks.
type Examining interface {
	// Examine returns which scopes the token for the repository lacks, if the host
	// reveals them. It changes nothing on the host, and the repository need not
	// exist. It returns a fault if the host rejects the token or is unreachable.
	Examine(ctx context.Context, r Repo) (Grant, error)
}

// Grant describes a token.
type Grant struct {
	Login string   // the token's user; "" if the host does not tell
	Lacks []string // missing scopes for pushing or opening pull requests
	Told  bool     // whether the host reveals scopes; if not, Lacks is always empty
}
