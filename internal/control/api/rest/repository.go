package rest

import "strings"

// WithoutScheme returns a repository's URL as it appears in a run's git field,
// without its scheme.
func WithoutScheme(raw string) string {
	if _, rest, ok := strings.Cut(raw, "://"); ok {
		if user, host, ok := strings.Cut(rest, "@"); ok && !strings.Contains(user, "/") {
			rest = host
		}
		return rest
	}
	if _, rest, ok := strings.Cut(raw, "@"); ok {
		return strings.Replace(rest, ":", "/", 1)
	}
	return raw
}
