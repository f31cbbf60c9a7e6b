package api

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// A page cannot give a WebSocket an Authorization header, only subprotocols. So
// it asks for ptyProtocol, and for one more that is keyProtocol and its key in
// base64url, which is never chosen. Unlike a query, it is in nobody's log.
const (
	ptyProtocol = "aloft.pty"
	keyProtocol = "aloft.key."
)

// socketKey returns the key that a request for a WebSocket bears among its
// subprotocols, or "".
func socketKey(r *http.Request) string {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return ""
	}
	for _, header := range r.Header.Values("Sec-WebSocket-Protocol") {
		for one := range strings.SplitSeq(header, ",") {
			if text, ok := strings.CutPrefix(strings.TrimSpace(one), keyProtocol); ok {
				key, err := base64.RawURLEncoding.DecodeString(text)
				if err != nil {
					return ""
				}
				return string(key)
			}
		}
	}
	return ""
}
