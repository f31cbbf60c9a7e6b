// Package inbound receives events from other services: it verifies that a
// configured connection has sent them, stores them, and hands each to a handler.
//
// An event only says that something may have changed. A source reduces it to a
// [Change], which names a pull request; the handler reads the pull request
// itself before it acts. So an event that is forged, repeated, delayed or
// replayed causes at most a needless read.
//
// [Inbox.Accept] returns once the event is on disk, under the id of its
// delivery. [Worker] claims stored events by lease, so that the death of a
// server delays an event and does not lose it.
package inbound

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/text"
)

// Codes of rejected webhook deliveries.
const (
	CodeSignature = "signature_invalid"
	CodeMediaType = "unsupported_media_type"
)

// maxQueued is how many events may wait. Further events are rejected, and their
// senders retry.
const maxQueued = 10_000

// maxDelivery is the maximum length of a delivery id, in bytes.
const maxDelivery = 200

// A Connection is one sender of events, as configured.
type Connection struct {
	Name   string // name in the URL of the webhook
	Source string // one of [Sources]
	Host   string // host of the repositories that it reports on, such as github.com
	Secret string // key with which the sender signs events
}

// Check returns an error if the connection is not valid. The host may be empty
// if the source has a default.
func (c *Connection) Check() error {
	s, ok := sources[c.Source]
	switch {
	case !plainName(c.Name):
		return fmt.Errorf("name: invalid value %q: use lower-case letters, digits and dashes, at most 64", c.Name)
	case !ok:
		return fmt.Errorf("source: invalid value %q: must be one of %s", c.Source, strings.Join(Sources(), ", "))
	case c.Host == "" && s.host == "":
		return fmt.Errorf("host is missing: it is the host of the repositories, such as git.example.com")
	case len(c.Secret) < minSecret:
		return fmt.Errorf("secret: has %d characters; use at least %d, such as the output of `openssl rand -hex 32`", len(c.Secret), minSecret)
	}
	if c.Host == "" {
		c.Host = s.host
	}
	r, err := forge.ParseURL("https://" + c.Host + "/owner/name")
	if err != nil || !strings.EqualFold(r.Host, c.Host) {
		return fmt.Errorf("host: invalid value %q: use a host such as git.example.com or git.example.com:3000", c.Host)
	}
	c.Host = r.Host
	if s.check != nil {
		return s.check(c.Secret)
	}
	return nil
}

// minSecret is the minimum length of a secret.
const minSecret = 16

func plainName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	})
}

// Kind is the kind of thing that has changed.
type Kind string

// Kinds of changes.
const (
	Comment     Kind = "comment" // a comment or a review
	Issue       Kind = "issue"
	Check       Kind = "check" // the result of a CI check
	PullRequest Kind = "pull_request"
)

// Change says what an event reports. Number, Branch and Commit name the pull
// request; at least one is set. If OnIssue is set, Number names an issue instead.
type Change struct {
	Repo      forge.Repo
	Number    int
	OnIssue   bool
	Branch    string
	Commit    string
	Kind      Kind
	CommentID string // the sender's id of the comment; "" if there is none
	Check     string // name of a check; "" if unknown
	Actor     string // login of the person or account that caused the event
	Bot       bool   // whether the sender says that the actor is not a person
	// Text is the text of a new or changed comment or issue, according to the
	// sender. It is unverified: use it only to decide whether to read the
	// comment or issue from the forge.
	Text string
}

// Event is a received event as its sender describes it.
type Event struct {
	ID         string // of the delivery, see [store.InboundID]
	Source     string
	Connection string
	Kind       string // the sender's name of the event
	ReceivedAt time.Time
	Body       []byte // JSON, unless the sender is wrong
	// Change has the fields that the source finds in the event. Unlike in
	// [Handler.Changed], all may be empty. Repo is zero if the event names no
	// repository.
	Change Change
}

// Ignored is the reason why an event needs no action.
type Ignored string

// Error implements the error interface, so that parsers can return an Ignored.
func (i Ignored) Error() string { return string(i) }

// CheckActor returns an [Ignored] if the change was made by a bot, or by a user who may not
// write to the repository. It returns nil if the sender does not name the actor.
func (c Change) CheckActor(ctx context.Context, f forge.Forge, r forge.Repo) error {
	switch {
	case c.Bot:
		return ignore("%s is a bot", c.Actor)
	case c.Actor == "":
		return nil
	}
	return CheckWriter(ctx, f, r, c.Actor)
}

// CheckWriter returns an [Ignored] if the user's contributions must be ignored; see
// [forge.Outsider].
func CheckWriter(ctx context.Context, f forge.Forge, r forge.Repo, user string) error {
	why, err := forge.Outsider(ctx, f, r, user)
	if err == nil && why != "" {
		err = Ignored(why)
	}
	return err
}

func ignore(format string, args ...any) error { return Ignored(fmt.Sprintf(format, args...)) }

// source is a kind of sender.
type source struct {
	host    string // default of [Connection.Host]
	maxBody int64  // bytes
	// verify reports whether the header signs the body with the secret.
	verify func(secret string, h http.Header, body []byte, now time.Time) error
	// id returns the id of the delivery and the name of the event.
	id func(h http.Header, body []byte) (delivery, kind string)
	// parse returns the change that the event reports. If the event needs no
	// action, the error is an [Ignored].
	parse func(kind string, body []byte) (payload, error)
	check func(secret string) error // rejects secrets that the source cannot have; may be nil
}

// payload holds the fields of an event that a source reads. The repository has
// the sender's name for it, without the host.
type payload struct {
	repo string
	Change
}

var sources = map[string]source{
	"github":  github,
	"gitlab":  gitlab,
	"gitea":   gitea,
	"generic": generic,
}

// Sources returns the names of all sources, sorted.
func Sources() []string {
	names := make([]string, 0, len(sources))
	for name := range sources {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Config configures an inbox. All fields but Logger are required.
type Config struct {
	Store       store.Inbox
	Connections []Connection // must be valid according to Check
	Logger      *slog.Logger
}

// Inbox accepts events. Its methods are safe for concurrent use.
type Inbox struct {
	Config
	decoy string // used as the secret of connections that do not exist
	now   func() time.Time
}

// NewInbox returns an inbox with the configuration.
func NewInbox(c Config) *Inbox {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Inbox{Config: c, decoy: rand.Text(), now: time.Now}
}

// Limit returns the maximum size of a source's events in bytes.
func (i *Inbox) Limit(name string) int64 {
	if s, ok := sources[name]; ok {
		return s.maxBody
	}
	return generic.maxBody
}

// Accept verifies and stores an event of the connection, and returns its id. A
// repeated delivery is accepted again and has no effect. The error is a fault
// unless the store fails. Accept computes the signature even for a connection
// that does not exist, so that the response time does not reveal which names
// exist.
func (i *Inbox) Accept(ctx context.Context, name, connection string, h http.Header, body []byte) (id string, err error) {
	s, known := sources[name]
	if !known {
		s = github
	}
	at := slices.IndexFunc(i.Connections, func(c Connection) bool { return c.Source == name && c.Name == connection })
	secret := i.decoy
	if at >= 0 {
		secret = i.Connections[at].Secret
	}
	err = s.verify(secret, h, body, i.now())
	if !known || at < 0 {
		return "", fault.NotFound("there is no connection with that source and name").
			Hint("check the URL of the webhook: /hooks/SOURCE/NAME, as in the server's connections")
	}
	if err != nil {
		i.Logger.WarnContext(ctx, "event refused", "source", name, "connection", connection, "reason", err)
		return "", fault.Unauthenticated("the signature is not valid: %v", err).Named(CodeSignature).
			Hint("give the sender the secret of the connection %s", connection)
	}
	if media, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil || media != "application/json" {
		return "", fault.Invalid("the content type must be application/json").Named(CodeMediaType).Hint("set it in the webhook's settings at the sender")
	}
	delivery, kind := s.id(h, body)
	if delivery == "" || len(delivery) > maxDelivery || !printable(delivery) {
		return "", fault.Invalid("the event has no valid delivery id")
	}
	if n, err := i.Store.QueuedInbound(ctx); err != nil {
		return "", err
	} else if n >= maxQueued {
		return "", fault.Unavailable("%d events are queued", n).Hint("send the event again later")
	}
	e := store.InboundEvent{
		ID: store.InboundID(name, connection, delivery), Source: name, Connection: connection, Delivery: delivery,
		Kind: forge.Line(kind, 100), ReceivedAt: i.now(), Body: body,
	}
	added, err := i.Store.AddInbound(ctx, e)
	if err != nil {
		return "", err
	}
	i.Logger.InfoContext(ctx, "event accepted", "event", e.ID, "source", name, "connection", connection, "kind", e.Kind, "repeated", !added)
	return e.ID, nil
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) })
}

// maxValues is the maximum number of JSON values of an event. The largest events of
// forges list up to 2,048 commits.
const maxValues = 100_000

// Describe returns a stored event. Its change is empty if the event cannot be parsed.
func (i *Inbox) Describe(e store.InboundEvent) Event {
	out := Event{ID: e.ID, Source: e.Source, Connection: e.Connection, Kind: e.Kind, ReceivedAt: e.ReceivedAt, Body: e.Body}
	at := slices.IndexFunc(i.Connections, func(c Connection) bool { return c.Source == e.Source && c.Name == e.Connection })
	if at < 0 || !new(text.Meter).Count(e.Body, 0, maxValues) {
		return out
	}
	p, err := sources[e.Source].parse(e.Kind, e.Body)
	if _, isIgnored := errors.AsType[Ignored](err); err != nil && !isIgnored {
		return out
	}
	repo := p.repo
	if p.Repo, err = forge.ParseURL("https://" + i.Connections[at].Host + "/" + repo); err != nil || repo == "" {
		p.Repo = forge.Repo{}
	}
	out.Change = p.bounded()
	return out
}

// bounded returns the change with short fields on one line each.
func (p payload) bounded() Change {
	p.Branch, p.Commit, p.Actor = forge.Line(p.Branch, 250), forge.Line(p.Commit, 64), forge.Line(p.Actor, 100)
	p.Check, p.CommentID = forge.Line(p.Check, 200), forge.Line(p.CommentID, 100)
	return p.Change
}

// parse returns the change that a stored event reports. If the event needs no
// action, the error is an [Ignored].
func (i *Inbox) parse(e store.InboundEvent) (Change, error) {
	at := slices.IndexFunc(i.Connections, func(c Connection) bool { return c.Source == e.Source && c.Name == e.Connection })
	if at < 0 {
		return Change{}, ignore("the connection %s is no longer configured", e.Connection)
	}
	if !new(text.Meter).Count(e.Body, 0, maxValues) {
		return Change{}, malformed{fmt.Errorf("it has more than %d JSON values", maxValues)}
	}
	p, err := sources[e.Source].parse(e.Kind, e.Body)
	if err != nil {
		return Change{}, err
	}
	if p.Repo, err = forge.ParseURL("https://" + i.Connections[at].Host + "/" + p.repo); err != nil || p.repo == "" {
		return Change{}, errors.New("the event names no valid repository")
	}
	c := p.bounded()
	if c.Number <= 0 && c.Branch == "" && c.Commit == "" {
		return Change{}, ignore("the event names no pull request, branch or commit")
	}
	return c, nil
}
