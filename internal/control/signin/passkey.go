package signin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"aloft/internal/account"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// MaxPasskeys is how many passkeys a user can have.
const MaxPasskeys = 20

// A ceremony is a challenge that a device has to answer.
type ceremony struct {
	UserID int64                `json:"userId,omitempty"` // the user who registers a passkey; 0 for a sign-in
	Data   webauthn.SessionData `json:"data"`
}

// person implements the WebAuthn library's user interface.
type person struct {
	account.User
	keys []account.Passkey
}

// WebAuthnID implements [webauthn.User].
func (p person) WebAuthnID() []byte { return []byte(strconv.FormatInt(p.ID, 10)) }

// WebAuthnName implements [webauthn.User].
func (p person) WebAuthnName() string {
	if p.Email != "" {
		return p.Email
	}
	return p.Name()
}

// WebAuthnDisplayName implements [webauthn.User].
func (p person) WebAuthnDisplayName() string { return p.Name() }

// WebAuthnCredentials implements [webauthn.User].
func (p person) WebAuthnCredentials() []webauthn.Credential {
	var all []webauthn.Credential
	for _, k := range p.keys {
		var c webauthn.Credential
		if json.Unmarshal(k.Credential, &c) == nil { // always succeeds, since this package wrote it
			all = append(all, c)
		}
	}
	return all
}

func (d *Desk) person(ctx context.Context, userID int64) (person, error) {
	u, err := d.Store.User(ctx, userID)
	if err != nil {
		return person{}, err
	}
	keys, err := d.Store.Passkeys(ctx, userID)
	return person{u, keys}, err
}

// BeginPasskey returns the options with which a browser creates a passkey, as
// JSON, and the name of the ceremony for FinishPasskey.
func (d *Desk) BeginPasskey(ctx context.Context, userID int64) (options json.RawMessage, name string, err error) {
	a, err := d.authenticator()
	if err != nil {
		return nil, "", err
	}
	p, err := d.person(ctx, userID)
	if err != nil {
		return nil, "", err
	}
	if len(p.keys) >= MaxPasskeys {
		return nil, "", fault.Conflict("you already have %d passkeys, which is the maximum", len(p.keys)).Hint("remove one")
	}
	creation, data, err := a.BeginRegistration(p,
		webauthn.WithResidentKeyRequirement(protocol.ResidentKeyRequirementRequired),
		webauthn.WithExclusions(webauthn.Credentials(p.WebAuthnCredentials()).CredentialDescriptors()))
	if err != nil {
		return nil, "", fmt.Errorf("begin a passkey: %w", err)
	}
	return d.challenge(creation.Response, ceremony{userID, *data})
}

// challenge seals the ceremony and returns the browser's options for it.
func (d *Desk) challenge(options any, c ceremony) (json.RawMessage, string, error) {
	text, err := json.Marshal(options)
	if err != nil {
		return nil, "", err
	}
	name, err := d.ceremonies.put(c, ceremonyTTL)
	return text, name, err
}

// FinishPasskey stores the passkey that the browser has created.
func (d *Desk) FinishPasskey(ctx context.Context, userID int64, name, title string, answer json.RawMessage) (account.Passkey, error) {
	c, ok := d.ceremonies.take(name)
	if !ok || c.UserID != userID || userID == 0 {
		return account.Passkey{}, errCeremony()
	}
	a, err := d.authenticator()
	if err != nil {
		return account.Passkey{}, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return account.Passkey{}, refused(err)
	}
	p, err := d.person(ctx, userID)
	if err != nil {
		return account.Passkey{}, err
	}
	made, err := a.CreateCredential(p, c.Data, parsed)
	if err != nil {
		return account.Passkey{}, refused(err)
	}
	if title = strings.TrimSpace(title); title == "" {
		title = fmt.Sprintf("Passkey %d", len(p.keys)+1)
	}
	k := account.Passkey{ID: made.ID, UserID: userID, Name: title, CreatedAt: time.Now().UTC().Round(0)}
	if k.Credential, err = json.Marshal(made); err != nil {
		return account.Passkey{}, err
	}
	err = d.Store.PutPasskey(ctx, k)
	if errors.Is(err, store.ErrExists) {
		err = fault.Conflict("this passkey belongs to another user")
	}
	return k, err
}

// BeginSignIn returns the options with which a browser requests a passkey, as
// JSON, and the name of the ceremony for WithPasskey.
func (d *Desk) BeginSignIn() (options json.RawMessage, name string, err error) {
	a, err := d.authenticator()
	if err != nil {
		return nil, "", err
	}
	assertion, data, err := a.BeginDiscoverableLogin()
	if err != nil {
		return nil, "", fmt.Errorf("begin to sign in by passkey: %w", err)
	}
	return d.challenge(assertion.Response, ceremony{Data: *data})
}

// WithPasskey signs in with the answer of the user's device.
func (d *Desk) WithPasskey(ctx context.Context, name string, answer json.RawMessage, address, browser string) (Session, error) {
	if err := d.failures.wait(addressName(address)); err != nil {
		return Session{}, err
	}
	c, ok := d.ceremonies.take(name)
	if !ok || c.UserID != 0 {
		return Session{}, errCeremony()
	}
	a, err := d.authenticator()
	if err != nil {
		return Session{}, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return Session{}, refused(err)
	}
	var p person
	found := func(_, handle []byte) (webauthn.User, error) {
		id, err := strconv.ParseInt(string(handle), 10, 64)
		if err == nil {
			p, err = d.person(ctx, id)
		}
		return p, err
	}
	made, err := a.ValidateDiscoverableLogin(found, c.Data, parsed)
	if err == nil && made.Authenticator.CloneWarning {
		err = errors.New("its counter has decreased; it may have been copied")
	}
	if err != nil {
		d.failures.add(addressName(address))
		return Session{}, refused(err)
	}
	for _, k := range p.keys {
		if bytes.Equal(k.ID, made.ID) {
			k.UsedAt = time.Now()
			if k.Credential, err = json.Marshal(made); err == nil {
				err = d.Store.PutPasskey(ctx, k)
			}
			if err != nil {
				return Session{}, err
			}
		}
	}
	return d.open(ctx, p.ID, browser)
}

func errCeremony() error {
	return fault.Invalid("this took too long or was already used").Hint("begin again")
}

// refused returns the fault for an invalid answer. The library's error is only
// logged.
func refused(err error) error {
	return fault.Unauthenticated("the passkey was not accepted").Hint("try again, or sign in another way").Because(err)
}
