package api

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/identity"
	"aloft/internal/fault"
)

// routes returns the table of all operations.
func (s *server) routes() []rest.Route {
	routes := slices.Concat(s.agents.Routes(), s.approvals.Routes(), s.stream.Routes(), s.pulls.Routes(), s.models.Routes(), s.environments.Routes(), s.machines.Routes(), s.mcpservers.Routes(), s.accounts.Routes(), s.connect.Routes(), s.memories.Routes(), s.automations.Routes(), s.inboundRoutes(), s.serverRoutes())
	return append(routes, s.legacy(routes)...)
}

// serverRoutes returns the operations that are about the server itself.
func (s *server) serverRoutes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/metrics", ID: "metrics", Summary: "Read the server's metrics in Prometheus format; admins only", Needs: account.Admin,
			Status: 200, Media: "text/plain", Handle: s.metrics},
		{Method: "GET", Path: "/healthz", ID: "health", Summary: "Check whether the server is ready", Open: true,
			Status: 200, Out: healthJSON{}, Handle: s.health},
		{Method: "GET", Path: identity.DiscoveryPath, ID: "openIDConfiguration", Summary: "OpenID Connect discovery document of the issuer of machine tokens", Open: true,
			Status: 200, Media: "application/json", Handle: s.identityDocument},
		{Method: "GET", Path: identity.KeysPath, ID: "openIDKeys", Summary: "List the public keys that verify machine tokens", Open: true,
			Status: 200, Media: "application/json", Handle: s.identityDocument},
		{Method: "GET", Path: "/openapi.json", ID: "openAPI", Summary: "Describe this API", Open: true, Status: 200, Media: "application/json", Handle: s.serveOpenAPI},
		{Method: "GET", Path: helpPath, ID: "getHelpOnErrors", Summary: "Explain error codes", Open: true, Status: 200, Media: "text/html", Handle: s.serveHelp},
		{Method: "GET", Path: "/openapi.yaml", ID: "openAPIYAML", Summary: "Describe this API", Open: true, Status: 200, Media: "application/yaml", Handle: s.serveOpenAPI},
	}
}

// handler registers the table on a mux. For unsupported methods, every path
// replies with the list of its methods.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, rt := range s.routes() {
		mux.Handle(rt.Method+" "+rt.Path, s.compressed(rt, s.serve(rt)))
		allowed[rt.Path] = append(allowed[rt.Path], rt.Method)
		if rt.Method == http.MethodGet {
			allowed[rt.Path] = append(allowed[rt.Path], http.MethodHead)
		}
	}
	for path, methods := range allowed {
		mux.Handle(path, s.serve(rest.Route{Path: path, Open: true, Handle: otherMethod(strings.Join(append(methods, http.MethodOptions), ", "))}))
	}
	unknown := s.serve(rest.Route{Path: "unknown", Open: true, Handle: noSuchPath})
	mux.Handle("/", unknown)
	return tidied(mux, unknown)
}

// tidied tolerates two mistakes in paths: extra slashes at the beginning, from
// a base URL that ends in a slash, and a slash at the end of an API path. Other
// unclean paths are "not found", because the mux would redirect them with a
// reply in HTML.
func tidied(next, unknown http.Handler) http.Handler {
	tidy := func(at string) string {
		at = "/" + strings.TrimLeft(at, "/")
		if strings.HasPrefix(at, "/v1/") || strings.HasPrefix(at, legacyPrefix) {
			at = strings.TrimSuffix(at, "/")
		}
		return at
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at := tidy(r.URL.Path); at != r.URL.Path {
			r = r.Clone(r.Context())
			if r.URL.Path = at; r.URL.RawPath != "" {
				r.URL.RawPath = tidy(r.URL.RawPath)
			}
		}
		if at := r.URL.EscapedPath(); path.Clean(at) != strings.TrimSuffix(at, "/") && at != "/" {
			unknown.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func otherMethod(allow string) rest.Handler {
	return func(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
		w.Header().Set("Allow", allow)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return fault.Invalid("%s is not allowed here; use %s", r.Method, allow).Named(rest.CodeMethod)
	}
}

func noSuchPath(_ http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	return fault.NotFound("nothing found at %s", fault.Quoted(r.URL.Path)).Hint("the API is described at /openapi.json")
}
