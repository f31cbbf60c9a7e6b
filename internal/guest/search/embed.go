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
	embedChunks    = 64      // candidates that are put in order by meaning
	embedBytes     = 4000    // of a text that is sent
	embedAnswer    = 8 << 20 // bytes of an answer
	embedKept      = 4096    // vectors
	embedDimension = 8192    // numbers in a vector
)

// Embedder asks an endpoint of the kind POST /v1/embeddings how near texts are
// to a question. What it sends are the question and the pieces of code that
// words found for it. Its methods are safe for concurrent use.
type Embedder struct {
	URL    string // up to and with /v1
	Model  string
	Key    string       // empty for none
	Client *http.Client // nil for the usual

	mu   sync.Mutex
	kept map[string][]float32 // by text, in no more than embedKept
}

// order puts the first hits in order by both words and meaning. On an error
// the order is as it was.
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

// text is what a hit is, with its path.
func (h hit) text(dir string) string {
	text, _, _ := read(filepath.Join(dir, h.name)) // of what is gone the path is left
	lines := bytes.SplitAfter(text, []byte("\n"))
	e := h.segment.extents[h.chunk]
	from := min(int(e.line)-1, len(lines))
	to := min(from+int(e.lines), len(lines))
	body := bytes.Join(lines[from:to], nil)
	return strings.ToValidUTF8(h.name+"\n"+string(body[:min(len(body), embedBytes)]), "\uFFFD")
}

// vectors returns the vector of every input, from what is kept or the endpoint.
func (e *Embedder) vectors(ctx context.Context, input []string) ([][]float32, error) {
	out := make([][]float32, len(input))
	var ask []string
	var at []int
	e.mu.Lock()
	for i, text := range input {
		if out[i] = e.kept[text]; out[i] == nil {
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
	if e.kept == nil || len(e.kept) > embedKept {
		e.kept = make(map[string][]float32)
	}
	for i, v := range got {
		out[at[i]] = v
		e.kept[ask[i]] = v
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
	defer func() { _ = resp.Body.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, embedAnswer))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answered %s", resp.Status)
	}
	return readVectors(raw, len(input))
}

// readVectors reads an answer for n inputs.
func readVectors(raw []byte, n int) ([][]float32, error) {
	var answer struct {
		Data []struct {
			Index     int
			Embedding []float32
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, errors.New("its answer is not that of an embeddings endpoint")
	}
	out := make([][]float32, n)
	for _, d := range answer.Data {
		if d.Index < 0 || d.Index >= n || len(d.Embedding) == 0 || len(d.Embedding) > embedDimension {
			return nil, errors.New("its answer holds a vector that was not asked for")
		}
		out[d.Index] = d.Embedding
	}
	if slices.ContainsFunc(out, func(v []float32) bool { return v == nil }) {
		return nil, errors.New("its answer lacks vectors")
	}
	return out, nil
}

// cosine is how near two vectors are, from 0 to 1.
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
