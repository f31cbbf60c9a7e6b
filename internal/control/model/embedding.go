package model

import "context"

// Limits of a request for embeddings. OpenAI allows 2048 texts of 8192 tokens,
// and 300,000 tokens in all. A token has at least one byte.
const (
	MaxEmbedded       = 96        // texts
	MaxEmbeddedBytes  = 8000      // bytes of one text
	MaxEmbeddedTotal  = 256 << 10 // bytes of all texts
	MaxEmbeddingWidth = 4096      // numbers in one vector
)

// An Embedder computes the embeddings of texts: vectors whose directions are the
// more alike, the more alike the meanings of the texts are. Its methods are safe
// for concurrent use.
type Embedder interface {
	// Embed returns one vector for each text, in order, and how many tokens the
	// provider counted; 0 if it does not report them. All vectors have the same
	// width. Errors of the provider are of type *[Error]. Embed does not retry.
	Embed(ctx context.Context, texts []string) (vectors [][]float32, tokens int64, err error)
}
