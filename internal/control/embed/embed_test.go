package embed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/control/embed"
	"aloft/internal/control/model"
	"aloft/internal/control/model/openai"
	"aloft/internal/embeddingtest"
)

func newRelay(t *testing.T, count func(context.Context, int64)) (*embed.Relay, *embeddingtest.Server) {
	s := embeddingtest.New(t)
	m := openai.NewEmbeddings(openai.Config{Name: embeddingtest.Model, BaseURL: s.URL, Key: embeddingtest.Key})
	return embed.New(m, embeddingtest.Model, count), s
}

// post sends a request as the machine of an agent would, and returns the status
// and the text of the reply.
func post(h http.Handler, request any) (int, string) {
	body, ok := request.([]byte)
	if !ok {
		body, _ = json.Marshal(request) // the tests' requests are valid
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/embeddings", bytes.NewReader(body)))
	return w.Code, w.Body.String()
}

func ask(texts ...string) map[string]any {
	return map[string]any{"model": embeddingtest.Model, "input": texts, "encoding_format": "float"}
}

func plain(s string) string { return s }

func TestRelay(t *testing.T) {
	counted := int64(0)
	r, s := newRelay(t, func(_ context.Context, n int64) { counted += n })
	hide := func(s string) string { return strings.ReplaceAll(s, "hunter22", "[REDACTED]") }
	code, body := post(r.Handler("bc-1", hide), ask("the password is hunter22", "a kite"))
	var got struct {
		Data []struct {
			Index     int
			Embedding []float32
		}
		Usage struct {
			Total int64 `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	if len(got.Data) != 2 || got.Data[1].Index != 1 || len(got.Data[1].Embedding) == 0 || got.Usage.Total != counted || counted == 0 {
		t.Errorf("%d vectors, %+v, %d tokens counted", len(got.Data), got.Usage, counted)
	}
	sent, _ := s.Inputs()
	if diff := cmp.Diff([]string{"the password is [REDACTED]", "a kite"}, sent); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(body, embeddingtest.Key) {
		t.Error("the machine got the key")
	}
}

func TestRelayRefuses(t *testing.T) {
	r, s := newRelay(t, nil)
	h := r.Handler("bc-1", plain)
	long := strings.Repeat("x", model.MaxEmbeddedBytes)
	for name, bad := range map[string]any{
		"no JSON":         []byte("<html>"),
		"another model":   map[string]any{"model": "gpt-image-1", "input": []string{"x"}},
		"base64":          map[string]any{"model": embeddingtest.Model, "input": []string{"x"}, "encoding_format": "base64"},
		"no texts":        ask(),
		"too many texts":  ask(make([]string, model.MaxEmbedded+1)...),
		"an empty text":   ask("x", " \n"),
		"a long text":     ask(long + "x"),
		"too much text":   ask(strings.Fields(strings.Repeat(long+" ", model.MaxEmbeddedTotal/len(long)+1))...),
		"not a list":      map[string]any{"model": embeddingtest.Model, "input": "x"},
		"tokens, no text": map[string]any{"model": embeddingtest.Model, "input": []int{1, 2}},
	} {
		if code, body := post(h, bad); code != http.StatusBadRequest || !strings.Contains(body, `"message"`) {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	if code, _ := post(h, bytes.Repeat([]byte(" "), 2<<20)); code != http.StatusRequestEntityTooLarge {
		t.Errorf("2 MiB: %d", code)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader("{}")))
	if w.Code != http.StatusNotFound {
		t.Errorf("another API: %d", w.Code)
	}
	if _, n := s.Inputs(); n != 0 {
		t.Errorf("the model got %d requests", n)
	}
}

// TestRelayFails checks that the machine learns why the model failed, but not
// the key.
func TestRelayFails(t *testing.T) {
	r, s := newRelay(t, nil)
	h := r.Handler("bc-1", plain)
	s.Fail(http.StatusInternalServerError, 0)
	if code, body := post(h, ask("x")); code < 500 || !strings.Contains(body, "had an error") {
		t.Errorf("%d %s", code, body)
	}
	s.Fail(http.StatusTooManyRequests, 0)
	if code, body := post(h, ask("x")); code != http.StatusServiceUnavailable || !strings.Contains(body, string(model.RateLimited)) {
		t.Errorf("%d %s", code, body)
	}
	wrong := embed.New(openai.NewEmbeddings(openai.Config{Name: "m", BaseURL: s.URL, Key: "sk-the-servers-own"}), "m", nil)
	code, body := post(wrong.Handler("bc-1", plain), map[string]any{"model": "m", "input": []string{"x"}})
	if code != http.StatusBadGateway || !strings.Contains(body, "unauthorized") || strings.Contains(body, "sk-the") {
		t.Errorf("%d %s", code, body)
	}
}

// TestBudget checks that the limit of bytes is the agent's, whatever its
// connections.
func TestBudget(t *testing.T) {
	r := embed.New(instant{}, "m", nil)
	text := strings.Repeat("x", model.MaxEmbeddedBytes)
	var texts []string
	for len(texts) < model.MaxEmbeddedTotal/len(text) {
		texts = append(texts, text)
	}
	many := map[string]any{"model": "m", "input": texts}
	accepted := 0
	for range 1000 {
		code, body := post(r.Handler("bc-1", plain), many)
		if code == http.StatusTooManyRequests {
			if !strings.Contains(body, "32 MiB") {
				t.Errorf("refused with %s", body)
			}
			break
		}
		accepted++
	}
	if accepted < 120 || accepted > 140 {
		t.Errorf("accepted %d requests of %d bytes", accepted, len(texts)*len(text))
	}
	if code, body := post(r.Handler("bc-2", plain), many); code != http.StatusOK {
		t.Errorf("another agent: %d %s", code, body)
	}
}

type instant struct{}

func (instant) Embed(_ context.Context, texts []string) ([][]float32, int64, error) {
	out := make([][]float32, len(texts))
	for i := range out {
		out[i] = []float32{1}
	}
	return out, 0, nil
}

// TestRelayAtOnce checks that a machine cannot have many requests at the model.
func TestRelayAtOnce(t *testing.T) {
	block := blocked{begun: make(chan struct{}), end: make(chan struct{})}
	h := embed.New(block, "m", nil).Handler("bc-1", plain)
	codes := make(chan int)
	one := map[string]any{"model": "m", "input": []string{"x"}}
	for range 4 {
		go func() {
			code, _ := post(h, one)
			codes <- code
		}()
		<-block.begun
	}
	if code, body := post(h, one); code != http.StatusTooManyRequests {
		t.Errorf("the fifth: %d %s", code, body)
	}
	close(block.end)
	for range 4 {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("got %d", code)
		}
	}
}

type blocked struct{ begun, end chan struct{} }

func (b blocked) Embed(ctx context.Context, texts []string) ([][]float32, int64, error) {
	b.begun <- struct{}{}
	<-b.end
	return instant{}.Embed(ctx, texts)
}
