package awsrole

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"aloft/internal/fault"
)

const (
	arn    = "arn:aws:iam::123456789012:role/agents"
	secret = "the-servers-own-secret-key"
)

// service simulates STS AssumeRole. It verifies each request's signature with
// the shared secret.
type service struct {
	mu    sync.Mutex
	asked []url.Values
	fail  []string // error codes of the next responses
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	refuse := func(status int, code string) {
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(status)
		fmt.Fprintf(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>%s</Code><Message>no</Message></Error><RequestId>1</RequestId></ErrorResponse>`, code)
	}
	if !signed(r, body) {
		refuse(403, "SignatureDoesNotMatch")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	form, err := url.ParseQuery(string(body))
	if err != nil {
		refuse(400, "MalformedQueryString")
		return
	}
	s.asked = append(s.asked, form)
	if len(s.fail) > 0 {
		code := s.fail[0]
		s.fail = s.fail[1:]
		refuse(map[string]int{"InternalFailure": 500, "AccessDenied": 403}[code]+map[bool]int{true: 400}[code == "ValidationError"], code)
		return
	}
	if form.Get("Action") != "AssumeRole" || form.Get("ExternalId") != "aloft-1" {
		refuse(403, "AccessDenied")
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>temporary</SecretAccessKey><SessionToken>token</SessionToken><Expiration>2030-01-02T03:04:05Z</Expiration>
</Credentials></AssumeRoleResult></AssumeRoleResponse>`)
}

// signed reports whether the request has the right signature (version 4) for
// the server's key.
func signed(r *http.Request, body []byte) bool {
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return false
	}
	again, err := http.NewRequest(r.Method, "http://"+r.Host+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return false
	}
	_, list, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	for name := range strings.SplitSeq(list, ";") {
		if values := r.Header.Values(name); name != "host" && name != "content-length" {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	sum := sha256.Sum256(body)
	key := aws.Credentials{AccessKeyID: "AKIASERVER", SecretAccessKey: secret}
	if err := v4.NewSigner().SignHTTP(context.Background(), key, again, hex.EncodeToString(sum[:]), "sts", "eu-west-1", at); err != nil {
		return false
	}
	return r.Header.Get("Authorization") == again.Header.Get("Authorization")
}

func open(t *testing.T, key string) (*service, *Roles) {
	t.Helper()
	s := &service{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c := aws.Config{Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("AKIASERVER", key, "")}
	return s, newRoles(c, server.URL)
}

func TestAssume(t *testing.T) {
	s, roles := open(t, secret)
	s.fail = []string{"InternalFailure"} // once: the client retries
	c, err := roles.Assume(t.Context(), arn, "aloft-1", "bc-1")
	if err != nil {
		t.Fatal(err)
	}
	if c.AccessKeyID != "ASIA1" || c.SecretAccessKey != "temporary" || c.SessionToken != "token" || c.Until.Year() != 2030 {
		t.Errorf("%+v", c)
	}
	last := s.asked[len(s.asked)-1]
	if len(s.asked) != 2 || last.Get("RoleArn") != arn || last.Get("RoleSessionName") != "bc-1" || last.Get("DurationSeconds") != "3600" {
		t.Errorf("asked %v", s.asked)
	}
}

func TestRefusals(t *testing.T) {
	s, roles := open(t, secret)
	for _, tt := range []struct{ fail, externalID, code string }{
		{"", "another", "aws_role_denied"}, {"AccessDenied", "aloft-1", "aws_role_denied"}, {"ValidationError", "aloft-1", "aws_role_invalid"},
	} {
		if tt.fail != "" {
			s.fail = []string{tt.fail}
		}
		_, err := roles.Assume(t.Context(), arn, tt.externalID, "bc-1")
		if f := fault.Of(err); f.Code != tt.code || strings.Contains(err.Error(), secret) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	_, wrong := open(t, "another key")
	if _, err := wrong.Assume(t.Context(), arn, "aloft-1", "bc-1"); fault.Of(err).Code != "aws_credentials" {
		t.Errorf("a wrong signature: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := roles.Assume(ctx, arn, "aloft-1", "bc-1"); fault.Of(err).Code != "aws_unavailable" {
		t.Errorf("a request that was given up: %v", err)
	}
}
