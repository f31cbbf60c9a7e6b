package api

import (
	"net/http"

	"aloft/internal/account"
	"aloft/internal/control/identity"
)

// identityDocument serves a document for verifying machines' tokens. It may be
// cached for a while, because keys are published long before they are used to
// sign.
func (s *server) identityDocument(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	document := s.config.Identity.Discovery
	if r.URL.Path == identity.KeysPath {
		document = s.config.Identity.Keys
	}
	body, err := document()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(body) // the client has disconnected; nobody to report the error to
	return nil
}
