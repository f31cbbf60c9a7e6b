package accounts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/redact"
	"aloft/internal/secret"
)

// Environments authorizes access to environments.
type Environments interface {
	// MayUse returns nil if the user may see the environment, or, if change is
	// true, may change it. An environment that the user may not see is "not
	// found".
	MayUse(ctx context.Context, who account.APIKey, environmentID string, change bool) error
}

type secretJSON struct {
	_             struct{}  `json:"-" additionalProperties:"true"`
	ID            string    `json:"id" doc:"changes with each new value"`
	Name          string    `json:"name"`
	Type          string    `json:"type" enum:"runtime_secret,environment_variable,build_secret"`
	Repos         []string  `json:"repos" nullable:"false" doc:"repositories whose machines get it; empty is all"`
	CreatedAt     time.Time `json:"createdAt"`
	Owner         string    `json:"owner" enum:"environment,personal,team"`
	EnvironmentID string    `json:"environmentId,omitempty"`
	Warning       string    `json:"warning,omitempty" doc:"warning about the value; an addition to the API"`
}

type listSecretsResponseJSON struct {
	_          struct{}     `json:"-" additionalProperties:"true"`
	Items      []secretJSON `json:"items" nullable:"false"`
	NextCursor string       `json:"nextCursor,omitempty" minLength:"1"`
}

type putSecretRequestJSON struct {
	_     struct{} `json:"-" additionalProperties:"true"`
	Value *string  `json:"value" minLength:"1" maxLength:"32768" nullable:"false"`
	Type  string   `json:"type,omitempty" enum:"runtime_secret,environment_variable,build_secret" default:"runtime_secret"`
	Repos []string `json:"repos,omitempty" maxItems:"100" nullable:"false"`
}

type rotatedJSON struct {
	_     struct{} `json:"-" additionalProperties:"true"`
	Count int      `json:"count" doc:"number of re-encrypted secrets"`
}

type externalIDJSON struct {
	_          struct{} `json:"-" additionalProperties:"true"`
	ExternalID string   `json:"externalId"`
}

// An ownerOf returns the owner of a request's secrets, or an error if the
// caller may not change them.
type ownerOf func(s *API, r *http.Request, who account.APIKey) (secret.Owner, error)

func ownSecrets(_ *API, _ *http.Request, who account.APIKey) (secret.Owner, error) {
	return personal(who), nil
}

func personal(who account.APIKey) secret.Owner {
	return secret.Owner{Kind: secret.OfPerson, ID: strconv.FormatInt(who.UserID, 10)}
}

func teamSecrets(*API, *http.Request, account.APIKey) (secret.Owner, error) {
	return secret.TheTeam, nil
}

func environmentSecrets(s *API, r *http.Request, who account.APIKey) (secret.Owner, error) {
	return s.environmentOwner(r.Context(), who, r.PathValue("id"), true)
}

func (s *API) environmentOwner(ctx context.Context, who account.APIKey, id string, change bool) (secret.Owner, error) {
	return secret.Owner{Kind: secret.OfEnvironment, ID: id}, s.Environments.MayUse(ctx, who, id, change)
}

func (s *API) putSecret(of ownerOf) rest.Handler {
	return func(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
		owner, err := s.secretOwner(of, r, who)
		if err != nil {
			return err
		}
		var in putSecretRequestJSON
		if err := rest.ReadBody(w, r, &in); err != nil {
			return err
		}
		if in.Value == nil {
			return fault.Invalid("is required").At("value")
		}
		put := secret.Secret{Name: r.PathValue("name"), Type: secret.Type(in.Type), Repos: in.Repos, Owner: owner}
		if put.Type == "" {
			put.Type = secret.Runtime
		}
		if err := s.inScope(r.Context(), put); err != nil {
			return err
		}
		kept, err := s.Secrets.Put(r.Context(), put, *in.Value)
		if err != nil {
			return err
		}
		out := secretOf(kept)
		if kept.Type != secret.Variable && len(redact.New(map[string]string{"": *in.Value}).Short()) > 0 {
			out.Warning = "the value has fewer than " + strconv.Itoa(redact.MinLength) + " bytes, so it is not redacted from machines' output"
		}
		return rest.WriteJSON(w, http.StatusOK, out)
	}
}

// inScope rejects a secret that is limited to repositories outside its
// environment, because no machine would ever get it.
func (s *API) inScope(ctx context.Context, put secret.Secret) error {
	if put.Owner.Kind != secret.OfEnvironment || len(put.Repos) == 0 {
		return nil
	}
	e, err := s.Saved.Environment(ctx, put.Owner.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil // MayUse has already checked the owner
	}
	if err != nil {
		return fmt.Errorf("read environment: %w", err)
	}
	for i, url := range put.Repos {
		if len(e.Repos) > 0 && !e.For(url) {
			return fault.Conflict("environment %s does not include %s", fault.Quoted(e.Name), fault.Quoted(url)).Named("secret_scope_conflict").
				Hint("omit repos, or add the repository to the environment").At(fmt.Sprintf("repos[%d]", i))
		}
	}
	return nil
}

func (s *API) deleteSecret(of ownerOf) rest.Handler {
	return func(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
		owner, err := s.secretOwner(of, r, who)
		if err != nil {
			return err
		}
		name := r.PathValue("name")
		if err := s.Secrets.Delete(r.Context(), owner, name); err != nil {
			return err
		}
		return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: name})
	}
}

func (s *API) secretOwner(of ownerOf, r *http.Request, who account.APIKey) (secret.Owner, error) {
	return of(s, r, who)
}

func (s *API) listSecrets(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	q := r.URL.Query()
	p, limit, err := rest.Page(q, rest.SecretList)
	if err != nil {
		return err
	}
	owners := []secret.Owner{personal(who), secret.TheTeam}
	if id := q.Get("environmentId"); id != "" {
		owner, err := s.environmentOwner(r.Context(), who, id, false)
		if err != nil {
			return err
		}
		owners = append(owners, owner)
	}
	all, err := s.Secrets.List(r.Context(), owners...)
	if err != nil {
		return err
	}
	if !p.BeforeTime.IsZero() {
		all = slices.DeleteFunc(all, func(s secret.Secret) bool {
			c := s.CreatedAt.Compare(p.BeforeTime)
			return c > 0 || c == 0 && s.ID >= p.BeforeID
		})
	}
	out := listSecretsResponseJSON{Items: []secretJSON{}}
	all, out.NextCursor = rest.Cut(rest.SecretList, all, limit, func(e secret.Secret) (time.Time, string) { return e.CreatedAt, e.ID })
	for _, s := range all {
		out.Items = append(out.Items, secretOf(s))
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func secretOf(s secret.Secret) secretJSON {
	out := secretJSON{
		ID: s.ID, Name: s.Name, Type: string(s.Type), Repos: append([]string{}, s.Repos...), CreatedAt: rest.Stamp(s.CreatedAt), Owner: string(s.Owner.Kind),
	}
	if s.Owner.Kind == secret.OfEnvironment {
		out.EnvironmentID = s.Owner.ID
	}
	return out
}

// rotateSecrets continues after its client has disconnected. After a partial
// rotation every secret is still readable, but only with the old keys.
func (s *API) rotateSecrets(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	n, err := s.Secrets.Rotate(context.WithoutCancel(r.Context()))
	if err != nil {
		return err
	}
	s.Logger.InfoContext(r.Context(), "re-encrypted secrets", "count", n, "user", who.UserID)
	return rest.WriteJSON(w, http.StatusOK, rotatedJSON{Count: n})
}

func (s *API) getExternalID(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	id, err := s.Secrets.ExternalID(r.Context())
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, externalIDJSON{ExternalID: id})
}
