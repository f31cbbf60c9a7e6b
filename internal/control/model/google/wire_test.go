package google_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/model"
	"aloft/internal/control/model/google"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/conversation"
)

var hi = model.Request{Messages: []conversation.Message{conversation.Text(conversation.User, "hi")}}

func open(t testing.TB, url string) model.Model {
	t.Helper()
	m, err := google.New(google.Config{Name: modeltest.Model, BaseURL: url, Key: modeltest.Key})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func replay(t *testing.T, raw string) (*model.Reply, error) {
	t.Helper()
	m := open(t, modeltest.NewGoogle(t, modeltest.Reply{Raw: raw}).URL+"/v1beta")
	for ev, err := range m.Stream(t.Context(), hi) {
		if err != nil || ev.Done != nil {
			return ev.Done, err
		}
	}
	t.Fatal("no reply and no error")
	return nil, nil
}

func fixture(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPublishedStream(t *testing.T) {
	got, err := replay(t, fixture(t, "calls.sse"))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, b := range got.Message.Blocks {
		if b.Call != nil {
			ids[b.Call.ID] = true
			b.Call.ID = "made"
		}
	}
	b, _ := json.Marshal(got)
	const want = `{"Message":{"role":"assistant","blocks":[` +
		`{"thinking":{"text":"**Looking** at the files.","provider":"google","model":"test-model-1"}},{"text":"I will read both."},` +
		`{"thinking":{"provider":"google","model":"test-model-1","opaque":"EpUKCpIK"}},` +
		`{"call":{"id":"made","name":"Read","args":{"path":"a"}}},{"call":{"id":"made","name":"Read","args":{"path":"b"}}}]},` +
		`"Stop":"calls","Usage":{"input":20,"output":50,"cacheRead":100,"cacheWrite":0}}`
	if string(b) != want {
		t.Errorf("\n got %s\nwant %s", b, want)
	}
	if len(ids) != 2 {
		t.Errorf("ids %v", ids)
	}
}

func TestHowRepliesEnd(t *testing.T) {
	end := func(fields string) string { return "data: {" + fields + "}\n\n" }
	for raw, want := range map[string]struct {
		stop   model.Stop
		reason model.Reason
	}{
		end(`"candidates":[{"finishReason":"SAFETY"}]`):                           {model.StopRefusal, ""},
		end(`"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}`):              {model.StopRefusal, ""},
		end(`"candidates":[{"finishReason":"MAX_TOKENS"}]`):                       {model.StopLength, ""},
		end(`"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]`):          {model.StopEnd, ""},
		end(`"candidates":[{"content":{"parts":[{"text":"x"}]}}]`):                {"", model.Cut},
		end(`"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}`): {"", model.Overloaded},
		end(`"error":{"code":429,"message":"q","status":"RESOURCE_EXHAUSTED"}`):   {"", model.RateLimited},
		"data: {oops\n\n": {"", model.Cut},
	} {
		got, err := replay(t, raw)
		if model.ReasonOf(err) != want.reason || err == nil && got.Stop != want.stop {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}

func TestNoKey(t *testing.T) {
	t.Setenv("GOOGLE_API_KEY", "of-the-host")
	t.Setenv("GEMINI_API_KEY", "of-the-host")
	if _, err := google.New(google.Config{Name: "gemini-2.5-pro"}); err == nil || !strings.Contains(err.Error(), "api_key") {
		t.Errorf("%v", err)
	}
}

// FuzzStream checks that any response of a server leads to a reply or an error,
// and never to a panic.
func FuzzStream(f *testing.F) {
	f.Add([]byte(fixture(f, "calls.sse")))
	f.Add([]byte("data: {\"candidates\":[null,{\"content\":{\"parts\":[null]}}],\"usageMetadata\":{\"promptTokenCount\":1e99}}\n\n"))
	f.Add([]byte("data: {\"candidates\":7}\n\ndata: []\n\n{\"error\":{}}\n\n"))
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(body)
	}))
	f.Cleanup(s.Close)
	m := open(f, s.URL)
	f.Fuzz(func(t *testing.T, data []byte) {
		body = data
		modeltest.Hostile(t, m, hi, 2*time.Minute)
	})
}

func TestHostileServerIsBounded(t *testing.T) {
	modeltest.Bounds(t, modeltest.Format{
		Text: func(piece string) string {
			return `data: {"candidates":[{"content":{"parts":[{"text":"` + piece + `"}]}}]}` + "\n\n"
		},
		Call: func(int) string {
			return `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"Shell","args":{}}}]}}]}` + "\n\n"
		},
		Values: func(n int) string {
			return `data: {"candidates":[{"content":{"parts":[{}` + strings.Repeat(",{}", n-1) + "]}}]}\n\n"
		},
	}, func(t *testing.T, url string) model.Model { return open(t, url) })
}
