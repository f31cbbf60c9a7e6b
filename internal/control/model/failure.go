package model

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const maxWords = 2048 // bytes of a provider's message that are kept

// Failure converts an HTTP error response. It does no I/O. It does not remove
// keys, as [Wire] does.
func Failure(status int, header http.Header, body []byte, now time.Time) *Error {
	p := parseProblem(body)
	e := &Error{
		Reason:     reasonOf(status, p.kind, p.message),
		Status:     status,
		Message:    plainWords(p.message),
		RetryAfter: RetryAfter(header, now),
	}
	if e.RetryAfter == 0 {
		e.RetryAfter = p.retryAfter
	}
	switch {
	case status >= 300 && status < 400:
		e.Reason, e.Message = BadRequest, "the address redirects to another address, which Aloft does not follow; set base_url to that address"
	case e.Message == "" && e.Reason == NotFound:
		e.Message = "no such model, or no such API at this address; check name and base_url"
	case e.Message == "":
		e.Message = http.StatusText(status)
	}
	return e
}

// StreamFailure converts an error event in a stream that began successfully.
// body is the data of the event.
func StreamFailure(body []byte) *Error {
	p := parseProblem(body)
	return &Error{
		Reason: reasonOf(p.status, p.kind, p.message), Message: plainWords(p.message), RetryAfter: p.retryAfter,
	}
}

type problem struct {
	message, kind string
	status        int
	retryAfter    time.Duration
}

// parseProblem parses the error bodies of all providers. The common form is
// {"error": {"message": …}}; Ollama sends a string instead of the object,
// vLLM omits the outer object, and Google may wrap everything in a list.
func parseProblem(body []byte) problem {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return problem{message: strings.TrimSpace(string(body))}
	}
	inner := []byte(outer.Error)
	var words string
	if len(inner) == 0 || string(inner) == "null" {
		inner = body
	} else if json.Unmarshal(inner, &words) == nil {
		return problem{message: words}
	}
	var e struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Status  string          `json:"status"`
		Code    json.RawMessage `json:"code"`
		Details []struct {
			Reason     string `json:"reason"`
			RetryDelay string `json:"retryDelay"`
		} `json:"details"`
	}
	_ = json.Unmarshal(inner, &e) // ignore the error: a field with an unexpected type does not affect the others
	p := problem{message: e.Message, kind: e.Type + " " + e.Status}
	var code string
	if json.Unmarshal(e.Code, &code) == nil {
		p.kind += " " + code
	} else {
		_ = json.Unmarshal(e.Code, &p.status)
	}
	for _, d := range e.Details {
		p.kind += " " + d.Reason
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil && wait > 0 {
			p.retryAfter = min(wait, maxRetryAfter)
		}
	}
	if p.message == "" {
		p.message = strings.TrimSpace(string(body))
	}
	return p
}

// tooLong matches the providers' messages for a full context window; only
// OpenAI has a code for it.
var tooLong = regexp.MustCompile(`(?i)prompt is too long|context_length_exceeded|maximum context length|` +
	`exceeds? the context|exceeds? (the )?(model'?s )?context|exceed_context_size|context window|` +
	`input token count .* exceeds|request_too_large|input is too long|larger than the context|max_model_len`)

// reasonOf classifies an error by its status and, if that is ambiguous, by the
// provider's type and message. status is 0 for an error within a stream.
func reasonOf(status int, kind, message string) Reason {
	kind = strings.ToLower(kind)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(kind, w) {
				return true
			}
		}
		return false
	}
	full := tooLong.MatchString(kind) || tooLong.MatchString(message)
	switch {
	case has("insufficient_quota", "billing_error"):
		return BadRequest // status 429, but waiting does not help
	case status == http.StatusUnauthorized, status == http.StatusForbidden,
		has("authentication_error", "permission_error", "api_key_invalid", "invalid_api_key"):
		return Unauthorized
	case status == http.StatusNotFound, has("model_not_found", "not_found_error", "notfounderror"):
		return NotFound
	case status == http.StatusTooManyRequests, has("rate_limit", "resource_exhausted"):
		return RateLimited
	case status == http.StatusRequestEntityTooLarge:
		return TooLong
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusConflict:
		return Overloaded
	case status >= 400 && full:
		return TooLong
	case status >= 400:
		return BadRequest
	case full:
		return TooLong
	case has("invalid_request", "invalid_argument", "invalid_prompt", "badrequest", "invalid_image", "image"):
		return BadRequest
	}
	return Overloaded // a stream that failed without a specific message
}

const maxRetryAfter = time.Hour // longer waits are shortened to this

// RetryAfter returns how long the provider asks to wait: from the header
// Retry-After-Ms, or from Retry-After in seconds or as an HTTP date. It is 0
// without a valid header, and at most an hour.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return capped(ms / 1000)
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return capped(s)
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return min(at.Sub(now), maxRetryAfter)
	}
	return 0
}

func capped(seconds float64) time.Duration {
	if seconds >= maxRetryAfter.Seconds() {
		return maxRetryAfter
	}
	return time.Duration(seconds * float64(time.Second))
}

// plainWords converts a server's message to one short line.
func plainWords(s string) string {
	if len(s) > maxWords {
		s = s[:maxWords] + "…"
	}
	s = strings.ToValidUTF8(s, "")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}
