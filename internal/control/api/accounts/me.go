package accounts

import (
	"fmt"
	"net/http"
	"net/mail"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
)

type apiKeyInfoJSON struct {
	_             struct{}  `json:"-" additionalProperties:"true"`
	APIKeyName    string    `json:"apiKeyName"`
	CreatedAt     time.Time `json:"createdAt"`
	UserID        int64     `json:"userId,omitempty" minimum:"0"`
	UserEmail     string    `json:"userEmail,omitempty" format:"email"`
	UserFirstName string    `json:"userFirstName,omitempty" minLength:"1"`
	UserLastName  string    `json:"userLastName,omitempty" minLength:"1"`
}

func (s *API) getMe(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	u, err := s.Accounts.User(r.Context(), who.UserID)
	if err != nil {
		return fmt.Errorf("read user %d: %w", who.UserID, err)
	}
	out := apiKeyInfoJSON{
		APIKeyName: who.Name, CreatedAt: rest.Stamp(who.CreatedAt), UserID: u.ID, UserFirstName: u.FirstName, UserLastName: u.LastName,
	}
	if a, err := mail.ParseAddress(u.Email); err == nil && a.Address == u.Email {
		out.UserEmail = u.Email
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}
