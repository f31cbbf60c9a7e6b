package store

import (
	"context"

	"aloft/internal/memory"
)

// Memories stores what agents have written down about repositories. Its methods are safe
// for concurrent use. They return [ErrNotFound] if a memory does not exist.
type Memories interface {
	// AddMemory stores a new memory with the revision 1. If its id is taken, the error
	// wraps [ErrExists].
	AddMemory(ctx context.Context, m memory.Memory) error
	// PutMemory replaces a memory. If its revision is no longer m.Revision, the error
	// wraps [ErrMoved].
	PutMemory(ctx context.Context, m memory.Memory) error
	// DeleteMemory deletes a memory. If it has another revision, the error wraps
	// [ErrMoved].
	DeleteMemory(ctx context.Context, id string, revision int64) error
	Memory(ctx context.Context, id string) (memory.Memory, error)
	// ListMemories returns the memories of a repository, oldest first.
	ListMemories(ctx context.Context, repo string) ([]memory.Memory, error)
	// MemoryRepos returns the repositories that have memories, in order.
	MemoryRepos(ctx context.Context) ([]string, error)
}
