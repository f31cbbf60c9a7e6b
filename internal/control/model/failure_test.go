package model

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestFailure(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   Reason
		words  string
	}{
		{"anthropic key", 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, Unauthorized, "invalid x-api-key"},
		{"anthropic overloaded", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, Overloaded, "Overloaded"},
		{"anthropic full", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 200001 tokens > 200000 maximum"}}`, TooLong, "prompt is too long"},
		{"anthropic too large", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, TooLong, ""},
		{"anthropic model", 404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-nope"}}`, NotFound, "model: claude-nope"},
		{"anthropic credit", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`, BadRequest, "credit"},
		{"openai full", 400, `{"error":{"message":"too many","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, TooLong, "too many"},
		{"openai quota", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, BadRequest, "quota"},
		{"openai limit", 429, `{"error":{"message":"Rate limit reached","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, RateLimited, ""},
		{"openai model", 400, `{"error":{"message":"The model does not exist","type":"invalid_request_error","code":"model_not_found"}}`, NotFound, ""},
		{"ollama model", 404, `{"error":"model \"nope\" not found, try pulling it first"}`, NotFound, "try pulling it"},
		{"vllm full", 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}`, TooLong, "4096"},
		{"llama.cpp full", 400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, TooLong, ""},
		{"llama.cpp loading", 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, Overloaded, "Loading"},
		{"google key", 400, `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, Unauthorized, "not valid"},
		{"google list", 429, `[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]`, RateLimited, "quota"},
		{"google full", 400, `{"error":{"code":400,"message":"The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, TooLong, ""},
		{"proxy", 502, "<html>Bad Gateway</html>", Overloaded, "Bad Gateway"},
		{"empty", 500, "", Overloaded, "Internal Server Error"},
		{"empty 404", 404, "", NotFound, "base_url"},
		{"redirect", 301, "", BadRequest, "redirect"},
		{"conflict", 409, "", Overloaded, ""},
		{"hostile code", 400, `{"error":{"message":{"a":1},"type":7,"code":{"x":[]}}}`, BadRequest, "message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Failure(c.status, nil, []byte(c.body), time.Time{})
			if e.Reason != c.want || e.Status != c.status || !strings.Contains(e.Message, c.words) || e.Message == "" {
				t.Errorf("%+v, want %s with %q", e, c.want, c.words)
			}
		})
	}
}

func TestStreamFailure(t *testing.T) {
	for body, want := range map[string]Reason{
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`:              Overloaded,
		`{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`:                       RateLimited,
		`{"type":"error","error":{"type":"invalid_request_error","message":"x"}}`:                  BadRequest,
		`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}`: TooLong,
		`{"type":"error","code":"server_error","message":"x"}`:                                     Overloaded,
		`{"code":"rate_limit_exceeded","message":"x"}`:                                             RateLimited,
		`{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}`:                              Overloaded,
		`not JSON`: Overloaded,
		``:         Overloaded,
	} {
		if e := StreamFailure([]byte(body)); e.Reason != want {
			t.Errorf("%s: %s, want %s", body, e.Reason, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", " 0.5 ", 500 * time.Millisecond},
		{"Retry-After", now.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second},
		{"Retry-After", now.Add(-time.Minute).Format(http.TimeFormat), 0},
		{"Retry-After", "-3", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "Inf", time.Hour},
		{"Retry-After", "1e300", time.Hour},
		{"Retry-After", now.Add(1000 * time.Hour).Format(http.TimeFormat), time.Hour},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"Retry-After-Ms", "x", 0},
	} {
		if got := RetryAfter(http.Header{c.name: {c.value}}, now); got != c.want {
			t.Errorf("%s: %s: %v, want %v", c.name, c.value, got, c.want)
		}
	}
	google := []byte(`{"error":{"code":429,"message":"q","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}`)
	if e := Failure(429, nil, google, now); e.RetryAfter != 34*time.Second {
		t.Errorf("google: %v", e.RetryAfter)
	}
}

func FuzzFailure(f *testing.F) {
	f.Add(429, []byte(`{"error":{"message":"m","code":1,"details":[{"retryDelay":"1s"}]}}`))
	f.Add(400, []byte(`[{"error":"x"}]`))
	f.Add(0, []byte("\xff\x00"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		for _, e := range []*Error{Failure(status, nil, body, time.Time{}), StreamFailure(body)} {
			if e.Reason == "" || len(e.Message) > maxWords+100 || !utf8.ValidString(e.Message) || e.RetryAfter < 0 {
				t.Fatalf("%+v", e)
			}
		}
	})
}

func TestLookup(t *testing.T) {
	for name, want := range map[string]Info{
		"claude-sonnet-4-5-20250929": {ContextWindow: 200_000, MaxOutput: 64_000, Images: true},
		"anthropic/claude-opus-4-1":  {ContextWindow: 200_000, MaxOutput: 32_000, Images: true},
		"gpt-5-mini":                 {ContextWindow: 400_000, MaxOutput: 128_000, Images: true},
		"Qwen/Qwen3-Coder-30B":       {ContextWindow: 262_144, MaxOutput: 65_536},
		"models/gemini-2.5-pro":      {ContextWindow: 1_048_576, MaxOutput: 65_536, Images: true},
		"house-special":              {ContextWindow: unknownWindow, MaxOutput: unknownMaxOutput, Images: true},
		"":                           {ContextWindow: unknownWindow, MaxOutput: unknownMaxOutput, Images: true},
	} {
		want.ID, want.DisplayName = name, name
		got := Lookup(name)
		got.Traits = Traits{}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	for _, k := range knownModels() {
		if k.Prefix == "" || k.MaxOutput <= 0 || k.Window <= k.MaxOutput {
			t.Errorf("known.json: %+v", k)
		}
	}
}
