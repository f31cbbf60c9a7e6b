package inbound

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// window is how much a signed time may differ from this server's clock, as
// Standard Webhooks recommends.
const window = 5 * time.Minute

// maxSignatures is how many signatures of one header are checked.
const maxSignatures = 10

var (
	errUnsigned = errors.New("the request has none")
	errWrong    = errors.New("it does not match the secret and the body")
	errTime     = errors.New("its timestamp is more than five minutes old, or in the future; check the clocks")
)

func sum(key, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return mac.Sum(nil)
}

// hexSignature verifies a signature in hex after the prefix.
func hexSignature(secret, prefix, given string, body []byte) error {
	want := sum([]byte(secret), body)
	if given == "" {
		return errUnsigned
	}
	text, ok := strings.CutPrefix(given, prefix)
	got, err := hex.DecodeString(text)
	if !ok || err != nil || !hmac.Equal(got, want) {
		return errWrong
	}
	return nil
}

// sameToken compares a token in constant time, also of tokens that differ in
// length.
func sameToken(secret, given string) error {
	a, b := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(given))
	equal := subtle.ConstantTimeCompare(a[:], b[:]) == 1
	switch {
	case given == "":
		return errUnsigned
	case !equal:
		return errWrong
	}
	return nil
}

// standardPrefix begins a secret in the form of Standard Webhooks.
const standardPrefix = "whsec_"

// standardKey returns the key of a secret. A secret that does not begin with
// whsec_ is itself the key.
func standardKey(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, standardPrefix)
	if !ok {
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) == 0 {
		return nil, errors.New("secret: whsec_ must be followed by base64")
	}
	return key, nil
}

func checkStandard(secret string) error {
	_, err := standardKey(secret)
	return err
}

// standard verifies a request as Standard Webhooks 1.0 does: webhook-signature
// is a list of versions and signatures of the id, the time and the body.
func standard(secret string, h http.Header, body []byte, now time.Time) error {
	key, err := standardKey(secret)
	if err != nil {
		return err
	}
	id, at := h.Get("webhook-id"), h.Get("webhook-timestamp")
	want := sum(key, append([]byte(id+"."+at+"."), body...))
	given := strings.Fields(h.Get("webhook-signature"))
	if id == "" || at == "" || len(given) == 0 {
		return errUnsigned
	}
	matches := false
	for _, one := range given[:min(len(given), maxSignatures)] {
		text, ok := strings.CutPrefix(one, "v1,")
		got, err := base64.StdEncoding.DecodeString(text)
		matches = matches || ok && err == nil && hmac.Equal(got, want)
	}
	if !matches {
		return errWrong
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > window {
		return errTime
	}
	return nil
}
