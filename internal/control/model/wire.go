package model

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"aloft/internal/text"
)

// Limits of a connection to a provider. Only the dial has a short timeout,
// since a local model can read a long prompt for minutes before it replies.
const (
	dialTimeout   = 5 * time.Second
	headerTimeout = 10 * time.Minute
	idleTimeout   = 5 * time.Minute // timeout between two reads of a stream
	maxReply      = 64 << 20        // bytes of one response on the wire: 128,000 tokens with 300 bytes of framing each are 38 MB
	maxEvent      = 8 << 20         // bytes of one event: the last event of the Responses API repeats the reply, its instructions and its tools
	maxValues     = 64 << 10        // JSON values of one event, since an SDK may allocate a KiB for "{}"; arguments, which are strings, are one value
	maxErrorBody  = 64 << 10        // bytes read of an error response
	maxHeader     = 256 << 10       // bytes; the default of net/http is 10 MiB
)

// transport is shared by all providers without their own client.
var transport = sync.OnceValue(func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() // supports proxies from the environment and HTTP/2
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = 2 * dialTimeout
	t.ResponseHeaderTimeout = headerTimeout
	t.MaxResponseHeaderBytes = maxHeader
	t.MaxIdleConnsPerHost = 32
	t.WriteBufferSize = 64 << 10 // a long conversation is hundreds of KiB of short pieces
	return t
})

// Wire is the HTTP transport of a provider's SDK. It converts every error
// response into an [*Error] before the SDK sees it, limits the size of
// responses and the pauses within them, does not follow redirects (which would
// leak the key), and removes the key from every error. It is safe for
// concurrent use.
type Wire struct {
	Client *http.Client // HTTP client for the SDK
	// Whole means that a response is one document, such as an image in base64,
	// which may be longer than an event of a stream.
	Whole bool
	// Values is the maximum number of JSON values in an event or document; 0 means
	// the default, which suits replies of chat models.
	Values int

	next    http.RoundTripper
	secrets []string
}

// NewWire returns a Wire for one provider. client may be nil; of a given
// client, only the transport and the cookie jar are used.
func NewWire(client *http.Client, secrets ...string) *Wire {
	w := &Wire{next: transport()}
	var jar http.CookieJar
	if client != nil {
		jar = client.Jar
		if client.Transport != nil {
			w.next = client.Transport
		}
	}
	for _, s := range secrets {
		if s != "" {
			w.secrets = append(w.secrets, s)
		}
	}
	w.Client = &http.Client{Transport: w, Jar: jar}
	return w
}

// RoundTrip implements [http.RoundTripper] for the SDK's client.
func (w *Wire) RoundTrip(req *http.Request) (*http.Response, error) {
	req, err := spliced(req)
	if err != nil {
		return nil, err
	}
	res, err := w.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(&patientBody{body: res.Body, left: maxErrorBody}, maxErrorBody))
		return nil, w.clean(Failure(res.StatusCode, res.Header, body, time.Now()))
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == "text/html" {
		res.Body.Close()
		return nil, &Error{Reason: BadReply, Status: res.StatusCode,
			Message: "the address answers with a web page, not a model's reply; check base_url"}
	}
	most := maxEvent
	if w.Whole {
		most = maxReply
	}
	kept, _ := req.Context().Value(failureKey{}).(*error)
	res.Body = &patientBody{body: res.Body, left: maxReply, most: most, values: cmp.Or(w.Values, maxValues), kept: kept}
	return res, nil
}

type failureKey struct{}

// KeepFailure returns a context for one request, and a function that returns
// the error with which [Wire] ended the response, or nil. An SDK may decode the
// part before that error, and instead return an error about the unfinished last
// event.
func KeepFailure(ctx context.Context) (context.Context, func() error) {
	kept := new(error)
	return context.WithValue(ctx, failureKey{}, kept), func() error { return *kept }
}

// Error converts an error of an SDK to one that Stream may yield: the cause of
// ctx if ctx has ended, otherwise an [*Error] without keys.
func (w *Wire) Error(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return w.clean(e)
	}
	return w.clean(netError(err))
}

// clean removes the keys from e. A hostile server may have put them there.
func (w *Wire) clean(e *Error) *Error {
	for _, s := range w.secrets {
		e.Message = strings.ReplaceAll(e.Message, s, "[key]")
		e.Message = strings.ReplaceAll(e.Message, url.QueryEscape(s), "[key]")
	}
	return e
}

// netError classifies an error of the connection or of decoding. It drops
// foreign text, because that may contain the key.
func netError(err error) *Error {
	var (
		dns    *net.DNSError
		op     *net.OpError
		syntax *json.SyntaxError
		types  *json.UnmarshalTypeError
		text   = plainWords(err.Error())
	)
	if u, ok := errors.AsType[*url.Error](err); ok {
		text = plainWords(u.Err.Error()) // without the URL
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Error{Reason: Unreachable, Message: text + "; is the server running, and is base_url right?", Err: syscall.ECONNREFUSED}
	case errors.As(err, &dns):
		return &Error{Reason: Unreachable, Message: "no such host " + plainWords(dns.Name) + "; check base_url"}
	case errors.As(err, &op) && op.Op == "dial":
		return &Error{Reason: Unreachable, Message: text}
	case errors.Is(err, bufio.ErrTooLong):
		return &Error{Reason: BadReply, Message: "an event of the stream is too large", Err: bufio.ErrTooLong}
	case errors.As(err, &syntax), errors.As(err, &types):
		return &Error{Reason: Cut, Message: "an event of the stream is not valid JSON: " + text}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.As(err, &op):
		return &Error{Reason: Cut, Message: "the connection was lost during the reply: " + text, Err: io.ErrUnexpectedEOF}
	case strings.Contains(text, "timeout") || strings.Contains(text, "tls:") || strings.Contains(text, "certificate"):
		return &Error{Reason: Unreachable, Message: text}
	}
	return &Error{Reason: Cut, Message: text}
}

// CutShort returns the Error for a stream that ended before its reply was
// complete.
func CutShort() *Error {
	return &Error{Reason: Cut, Message: "the stream ended before the reply did", Err: io.ErrUnexpectedEOF}
}

// A patientBody limits the length of a body, the time between its pieces, and
// the size of each event.
type patientBody struct {
	body   io.ReadCloser
	left   int64
	most   int // maximum bytes of one event; 0 means no limit
	values int // maximum JSON values of one event
	events text.Meter
	kept   *error // if not nil, receives an error that patientBody itself returns
}

// Read implements [io.Reader].
func (b *patientBody) Read(p []byte) (int, error) {
	n, err := b.read(p)
	if _, ours := err.(*Error); ours && b.kept != nil { //nolint:errorlint // an error that read made, not one that it wraps
		*b.kept = err
	}
	return n, err
}

func (b *patientBody) read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &Error{Reason: BadReply, Message: fmt.Sprintf("the answer is longer than %d MiB", maxReply>>20)}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	silent := make(chan struct{})
	alarm := time.AfterFunc(idleTimeout, func() {
		close(silent)
		b.body.Close()
	})
	n, err := b.body.Read(p)
	if !alarm.Stop() {
		<-silent
		return n, &Error{Reason: Cut, Message: fmt.Sprintf("the stream was silent for %v", idleTimeout)}
	}
	b.left -= int64(n)
	if err := b.limit(p[:n]); err != nil {
		return 0, err
	}
	return n, err
}

// limit returns an [*Error] if the next bytes of the stream make an event
// exceed a limit. It applies the limits before an SDK decodes the event.
func (b *patientBody) limit(p []byte) error {
	switch {
	case b.most == 0 || b.events.Count(p, b.most, b.values):
		return nil
	case b.events.Size() > b.most:
		return &Error{Reason: BadReply, Message: fmt.Sprintf("an event of the stream is larger than %d MiB", b.most>>20)}
	}
	return &Error{Reason: BadReply, Message: fmt.Sprintf("an event of the stream has more than %d JSON values", b.values)}
}

// Close implements [io.Closer].
func (b *patientBody) Close() error { return b.body.Close() }

// Object returns args if they are a JSON object. Anything else that a model
// wrote is wrapped in an object, since every provider rejects other values in
// later requests.
func Object(args json.RawMessage) json.RawMessage {
	if t := bytes.TrimSpace(args); len(t) > 0 && t[0] == '{' && json.Valid(t) {
		return t
	}
	var text string
	if json.Unmarshal(args, &text) != nil {
		text = string(args)
	}
	if strings.TrimSpace(text) == "" {
		return json.RawMessage("{}")
	}
	b, _ := json.Marshal(map[string]string{"invalid_arguments": text}) // marshaling a string cannot fail
	return b
}
