package api

import (
	"net/http"
	"net/url"
	"strings"

	"aloft/internal/fault"
)

// fromBrowser reports whether a page has made the request.
func fromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}

// sameSite returns a fault unless a page of this very server has made the
// request, at the address that the browser used or at its public one. A page of
// a preview is another's, though its name may end with ours.
func sameSite(r *http.Request, publicURL string) error {
	refused := fault.Denied("this request does not come from the dashboard").Named("cross_site").
		Hint("programs use an API key; behind a proxy, set public_url")
	if origin := r.Header.Get("Origin"); origin != "" {
		o, err := url.Parse(origin)
		if err != nil || o.Host == "" {
			return refused
		}
		p, err := url.Parse(publicURL)
		if strings.EqualFold(o.Host, r.Host) || err == nil && strings.EqualFold(o.Host, p.Host) && o.Scheme == p.Scheme {
			return nil
		}
		return refused
	}
	if r.Header.Get("Sec-Fetch-Site") == "same-origin" {
		return nil
	}
	return refused
}

// changes reports whether a request may do more than read: a WebSocket may.
func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead || r.Header.Get("Upgrade") != ""
}
