package search

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

// Limits of requests to the endpoint. The server's relay allows as many texts
// and bytes, and one request more at once.
const (
	embedBatch     = 64        // texts of a request
	embedBytes     = 4000      // bytes of a piece's lines
	embedTotal     = 256 << 10 // bytes of a request's texts
	embedAtOnce    = 3         // concurrent requests, besides the query's
	embedAnswer    = 8 << 20   // bytes of a response
	embedDimension = 4096      // numbers in a vector
)

// Embedder gets embeddings from an endpoint with OpenAI's interface, POST
// /v1/embeddings, to compare pieces of code with a query. It sends both. Its
// methods are safe for concurrent use.
type Embedder struct {
	URL    string // up to and including /v1
	Model  string
	Key    string       // empty for none
	Client *http.Client // nil for the default client
}

// embed returns the vector of every text.
func (e *Embedder) embed(ctx context.Context, texts []string) ([][]float32, error) {
	body, err := json.Marshal(map[string]any{"model": e.Model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(e.URL, "/")+"/embeddings", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if e.Key != "" {
		req.Header.Set("Authorization", "Bearer "+e.Key)
	}
	resp, err := cmp.Or(e.Client, http.DefaultClient).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // the body was only read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, embedAnswer))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, errors.New(strings.TrimSpace("it answered " + resp.Status + " " + reasonIn(raw)))
	}
	return readVectors(raw, len(texts))
}

// reasonIn returns the message of an error response, on one short line.
func reasonIn(raw []byte) string {
	var answer struct{ Error struct{ Message string } }
	_ = json.Unmarshal(raw, &answer) // without a message, the status has to do
	line := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(answer.Error.Message, "\uFFFD"))
	if len(line) > 300 {
		line = strings.ToValidUTF8(line[:300], "") + "…"
	}
	return line
}

// readVectors parses a response for n texts.
func readVectors(raw []byte, n int) ([][]float32, error) {
	var answer struct {
		Data []struct {
			Index     int
			Embedding []float32
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, errors.New("the response is not that of an embeddings endpoint")
	}
	out := make([][]float32, n)
	for _, d := range answer.Data {
		if d.Index < 0 || d.Index >= n || len(d.Embedding) == 0 || len(d.Embedding) > embedDimension {
			return nil, errors.New("the response has a vector that was not requested")
		}
		out[d.Index] = d.Embedding
	}
	if slices.ContainsFunc(out, func(v []float32) bool { return v == nil || len(v) != len(out[0]) }) {
		return nil, errors.New("the response lacks vectors, or they differ in width")
	}
	return out, nil
}

// batches splits texts into requests, and returns the index of the first text
// of each, and then len(texts).
func batches(texts []string) []int {
	at, size := []int{0}, 0
	for i, t := range texts {
		if i-at[len(at)-1] == embedBatch || size+len(t) > embedTotal {
			at, size = append(at, i), 0
		}
		size += len(t)
	}
	return append(at, len(texts))
}

// embedAll gets the vectors of many texts with concurrent requests. After an
// error, it returns the vectors that it has got; those of other texts are nil.
func (e *Embedder) embedAll(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	at := batches(texts)
	turns := make(chan struct{}, embedAtOnce)
	failed := make(chan error, len(at))
	for i := range at[1:] {
		turns <- struct{}{}
		if len(failed) > 0 {
			<-turns
			break // requests under way may still succeed
		}
		go func() {
			defer func() { <-turns }()
			got, err := e.embed(ctx, texts[at[i]:at[i+1]])
			if err != nil {
				failed <- err
				return
			}
			copy(out[at[i]:at[i+1]], got)
		}()
	}
	for range embedAtOnce {
		turns <- struct{}{} // waits for every request
	}
	select {
	case err := <-failed:
		return out, err
	default:
		return out, nil
	}
}

// failure formats the error of the endpoint for the model.
func failure(err error) string { return fmt.Sprintf("because the embedding endpoint failed: %v", err) }
