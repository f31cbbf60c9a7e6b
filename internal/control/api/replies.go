package api

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

const (
	repliesFor = 24 * time.Hour // how long a reply is kept for repeated requests
	maxReply   = 1 << 20        // bytes; longer replies are not kept
)

// keeps reports whether the server stores the route's replies for repeated
// requests. It does so for every POST whose repetition the journal does not
// detect.
func keeps(rt rest.Route) bool {
	journaled := slices.ContainsFunc(rt.Header, func(p rest.Param) bool { return p.Name == rest.IdempotencyParam.Name })
	return rt.Method == http.MethodPost && !rt.Open && !journaled
}

// replay handles a request. If the request repeats one that succeeded, replay
// sends the stored reply and returns again = true; a failed request is handled
// again. If the server dies between a request's effect and its reply, a
// repetition takes effect twice.
func (s *server) replay(w *reply, r *http.Request, rt rest.Route, who account.APIKey) (again bool, err error) {
	if !keeps(rt) {
		return false, rt.Handle(w, r, who)
	}
	key, err := rest.IdempotencyKey(r)
	if err != nil {
		return false, err
	}
	if key == "" {
		return false, rt.Handle(w, r, who)
	}
	body, err := rest.WholeBody(w, r)
	if err != nil {
		return false, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	kept := store.Reply{
		ID:      sha256.Sum256([]byte(callerOf(who) + "\x00" + r.URL.Path + "\x00" + key)),
		Request: sha256.Sum256(append([]byte(r.URL.RawQuery+"\x00"), body...)),
	}
	done, err := s.answering.Lock(r.Context(), kept.ID)
	if err != nil {
		return false, err
	}
	defer done()
	first, err := s.config.Replies.Reply(r.Context(), kept.ID)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && time.Since(first.At) > repliesFor:
	case err != nil:
		return false, err
	case first.Request != kept.Request:
		return false, fault.Conflict("was already used with another request").Named("idempotency_key_reused").At("Idempotency-Key")
	default:
		return true, s.giveAgain(w, first, key)
	}
	copied := &copied{ResponseWriter: w.ResponseWriter}
	w.ResponseWriter = copied
	if err := rt.Handle(w, r, who); err != nil || w.status/100 != 2 || copied.body.Len() > maxReply {
		return false, err
	}
	saved := savedReplyJSON{Status: w.status, Type: w.Header().Get("Content-Type"), Body: copied.body.Bytes()}
	if kept.Sealed, err = s.sealReply(key, saved); err == nil {
		kept.At = time.Now().UTC()
		err = s.config.Replies.KeepReply(context.WithoutCancel(r.Context()), kept)
	}
	if err != nil { // only logged, because the request succeeded and was answered
		s.Logger.Error("cannot store a reply for repeated requests", "route", rt.Path, "error", err)
	}
	return false, nil
}

// callerOf returns the name under which a caller's replies are stored. A user's
// sub-tokens cannot get the replies to the user's keys and sessions, because
// sub-tokens have fewer rights and a reply may show a new API key.
func callerOf(who account.APIKey) string {
	name := strconv.FormatInt(who.UserID, 10)
	if who.Kind == account.SubToken {
		return name + " by sub-token"
	}
	return name
}

// copied records a reply while it is written.
type copied struct {
	http.ResponseWriter
	body bytes.Buffer
}

func (c *copied) Write(b []byte) (int, error) {
	if c.body.Len() <= maxReply {
		c.body.Write(b)
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] reach the connection.
func (c *copied) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// savedReplyJSON is the stored form of a reply.
type savedReplyJSON struct {
	Status int
	Type   string
	Body   []byte
}

// giveAgain sends a stored reply.
func (s *server) giveAgain(w http.ResponseWriter, r store.Reply, key string) error {
	box, err := s.replyBox(key)
	if err != nil {
		return err
	}
	var saved savedReplyJSON
	if len(r.Sealed) < box.NonceSize() {
		return errors.New("a stored reply is truncated")
	}
	nonce, sealed := r.Sealed[:box.NonceSize()], r.Sealed[box.NonceSize():]
	plain, err := box.Open(nil, nonce, sealed, nil)
	if err != nil {
		return fmt.Errorf("decrypt a stored reply: %w", err)
	}
	if err := json.Unmarshal(plain, &saved); err != nil {
		return fmt.Errorf("read a stored reply: %w", err)
	}
	if saved.Type != "" {
		w.Header().Set("Content-Type", saved.Type)
	}
	w.WriteHeader(saved.Status)
	_, _ = w.Write(saved.Body) // the client has disconnected
	return nil
}

// sealReply encrypts a reply with the caller's idempotency key, which is not
// stored. The reply may contain an API key or a link that must be shown only
// once.
func (s *server) sealReply(key string, saved savedReplyJSON) ([]byte, error) {
	box, err := s.replyBox(key)
	if err != nil {
		return nil, err
	}
	plain, err := json.Marshal(saved)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, box.NonceSize())
	_, _ = rand.Read(nonce) // never fails: crypto/rand ends the process instead
	return box.Seal(nonce, nonce, plain, nil), nil
}

func (s *server) replyBox(key string) (cipher.AEAD, error) {
	secret := sha256.Sum256([]byte("reply\x00" + string(s.URLSecret) + "\x00" + key))
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
