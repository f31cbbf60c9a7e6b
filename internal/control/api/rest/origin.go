package rest

import (
	"net/http"
	"net/url"
	"strings"

	"aloft/internal/fault"
)

// FromBrowser reports whether a web page made the request.
func FromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}

// SameSite returns a fault unless a page of this server made the request, at
// the address that the browser used or at the public URL. A page of a preview
// is foreign, even if its host is a subdomain of this server's.
func SameSite(r *http.Request, publicURL string) error {
	refused := fault.Denied("this request does not come from the dashboard").Named("cross_site").
		Hint("programs use an API key; behind a proxy, set public_url")
	if origin := r.Header.Get("Origin"); origin != "" {
		o, err := url.Parse(origin)
		if err != nil || o.Host == "" {
			return refused
		}
		p, err := url.Parse(publicURL)
		switch {
		case err == nil && strings.EqualFold(o.Host, p.Host) && o.Scheme == p.Scheme:
			return nil
		case err == nil && strings.EqualFold(o.Host, p.Host) && p.Scheme == "https":
			return refused // without TLS, anybody in the network can impersonate the host
		case strings.EqualFold(o.Host, r.Host):
			return nil
		}
		return refused
	}
	if r.Header.Get("Sec-Fetch-Site") == "same-origin" {
		return nil
	}
	return refused
}

// changes reports whether a request may do more than read. A WebSocket always
// can.
func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead || r.Header.Get("Upgrade") != ""
}
