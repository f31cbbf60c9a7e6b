package rest

import "strings"

// WithoutScheme returns a URL in the form in which a run's git field names
// repositories.
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
