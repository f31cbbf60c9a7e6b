package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	embedTime      = 20 * time.Second
	embedChunks    = 64      // number of candidates that are reordered by meaning
	embedBytes     = 4000    // maximum length of a text that is sent, in bytes
	embedAnswer    = 8 << 20 // bytes of a response
	embedKept      = 4096    // number of cached vectors
	embedDimension = 8192    // numbers in a vector
)

// Embedder gets embeddings from an endpoint with OpenAI's interface, POST
// /v1/embeddings, to compare texts with a query. It sends the query, and the pieces of
// code that the keyword search found. Its methods are safe for concurrent use.
type Embedder struct {
	URL    string // up to and including /v1
	Model  string
	Key    string       // empty for none
	Client *http.Client // nil for the default client

	mu    sync.Mutex
	cache map[string][]float32 // cached vectors by text, at most embedKept
}

// order reorders the first hits by both keywords and meaning. On an error the
// order is unchanged.
func (e *Embedder) order(ctx context.Context, dir, question string, hits []hit) ([]hit, error) {
	n := min(len(hits), embedChunks)
	if n < 2 {
		return hits, nil
	}
	input := []string{question}
	for _, h := range hits[:n] {
		input = append(input, h.text(dir))
	}
	vectors, err := e.vectors(ctx, input)
	if err != nil {
		return hits, err
	}
	out := slices.Clone(hits)
	most := out[0].score
	for i := range out[:n] {
		near := cosine(vectors[0], vectors[i+1])
		out[i].score = (out[i].score/most + near) / 2 * most
	}
	slices.SortFunc(out[:n], byScore)
	return out, nil
}

// text returns the text of a hit, with its path.
func (h hit) text(dir string) string {
	text, _, _ := read(filepath.Join(dir, h.name)) // if the file is gone, only the path remains
	lines := bytes.SplitAfter(text, []byte("\n"))
	e := h.segment.extents[h.chunk]
	from := min(int(e.line)-1, len(lines))
	to := min(from+int(e.lines), len(lines))
	body := bytes.Join(lines[from:to], nil)
	return strings.ToValidUTF8(h.name+"\n"+string(body[:min(len(body), embedBytes)]), "\uFFFD")
}

// vectors returns the vector of every input, from the cache or the endpoint.
func (e *Embedder) vectors(ctx context.Context, input []string) ([][]float32, error) {
	out := make([][]float32, len(input))
	var ask []string
	var at []int
	e.mu.Lock()
	for i, text := range input {
		if out[i] = e.cache[text]; out[i] == nil {
			ask, at = append(ask, text), append(at, i)
		}
	}
	e.mu.Unlock()
	if len(ask) == 0 {
		return out, nil
	}
	got, err := e.post(ctx, ask)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cache == nil || len(e.cache) > embedKept {
		e.cache = make(map[string][]float32)
	}
	for i, v := range got {
		out[at[i]] = v
		e.cache[ask[i]] = v
	}
	return out, nil
}

func (e *Embedder) post(ctx context.Context, input []string) ([][]float32, error) {
	ctx, stop := context.WithTimeout(ctx, embedTime)
	defer stop()
	body, err := json.Marshal(map[string]any{"model": e.Model, "input": input, "encoding_format": "float"})
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
	client := e.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // the body was only read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, embedAnswer))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answered %s", resp.Status)
	}
	return readVectors(raw, len(input))
}

// readVectors parses a response for n inputs.
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
	if slices.ContainsFunc(out, func(v []float32) bool { return v == nil }) {
		return nil, errors.New("the response lacks vectors")
	}
	return out, nil
}

// cosine returns the similarity of two vectors, from 0 to 1.
func cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	var dot, x, y float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
		x += float64(a[i]) * float64(a[i])
		y += float64(b[i]) * float64(b[i])
	}
	if x == 0 || y == 0 {
		return 0
	}
	return max(0, dot/math.Sqrt(x*y))
}
