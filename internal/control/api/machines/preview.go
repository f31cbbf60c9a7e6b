package machines

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/preview"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// Previews serves the web servers in machines to browsers.
type Previews interface {
	Open(key [sha256.Size]byte, agentID string, port uint16, serverPort string) (preview.Link, error)
}

type previewJSON struct {
	_         struct{}  `json:"-" additionalProperties:"true"`
	URL       string    `json:"url" doc:"URL of the preview, for a signed-in browser"`
	SignInURL string    `json:"signInUrl" doc:"one-time link that signs a browser in and opens the preview"`
	ExpiresAt time.Time `json:"expiresAt" doc:"when signInUrl expires"`
}

// createPreview opens a preview of a port for the caller's browser.
func (s *API) createPreview(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(r.PathValue("port"), 10, 16)
	if err != nil || port == 0 {
		return fault.Invalid("must be a number from 1 to 65535").At("port")
	}
	if s.Previews == nil {
		return fault.NotImplemented("previews are not enabled on this server").Named(rest.CodeOff).Hint("set preview.domain in the configuration, or use aloft agent forward")
	}
	serverPort := ""
	if u, err := url.Parse(s.PublicURL()); err == nil {
		_, serverPort, _ = net.SplitHostPort(u.Host)
	}
	link, err := s.Previews.Open(who.Hash, a.ID, uint16(port), serverPort)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, previewJSON{URL: link.URL, SignInURL: link.SignIn, ExpiresAt: link.Expires.UTC()})
}

// MayReach returns a function that applies the API's rules: it returns nil if
// the API key with the given hash may connect to an agent's machine.
func MayReach(accounts store.Accounts, agents store.Agents) func(ctx context.Context, key [sha256.Size]byte, agentID string) error {
	s := &rest.Shared{Accounts: accounts, Agents: agents}
	return func(ctx context.Context, key [sha256.Size]byte, agentID string) error {
		who, err := rest.KeyOf(ctx, accounts, key)
		if err == nil {
			err = rest.MayUse(rest.Route{Needs: account.Member}, who) // the role that createPreview requires
		}
		if err == nil {
			_, err = s.Agent(ctx, who, agentID)
		}
		return err
	}
}
