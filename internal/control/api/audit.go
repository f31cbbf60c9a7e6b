package api

import (
	"net/http"
	"strings"

	"aloft/internal/control/api/rest"
)

// audited reports whether calls of the route are recorded. It is true for
// changes that outlast an agent; an agent's own changes are in its journal.
func audited(rt rest.Route) bool {
	if rt.Open || rt.Method == http.MethodGet {
		return false
	}
	return rt.Method == http.MethodDelete || !strings.HasPrefix(rt.Path, "/v1/agents") && !strings.HasPrefix(rt.Path, legacyPrefix)
}

// targetOf returns the target of a request: the values of its path parameters.
func targetOf(rt rest.Route, r *http.Request) string {
	var all []string
	for _, m := range pathParam.FindAllStringSubmatch(rt.Path, -1) {
		all = append(all, r.PathValue(m[1]))
	}
	return strings.Join(all, " ")
}
