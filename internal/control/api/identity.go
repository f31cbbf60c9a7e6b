package api

import (
	"net/http"

	"aloft/internal/account"
	"aloft/internal/control/identity"
	"aloft/internal/fault"
)

// identityDocument answers whoever verifies the tokens of machines. It may be
// kept for a while: a key is published long before it signs.
func (s *server) identityDocument(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	if s.Identity == nil {
		return fault.NotImplemented("identity tokens are not enabled on this server").Named(codeOff)
	}
	document := s.Identity.Discovery
	if r.URL.Path == identity.KeysPath {
		document = s.Identity.Keys
	}
	body, err := document()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(body) // the connection's error has nobody left to tell
	return nil
}
