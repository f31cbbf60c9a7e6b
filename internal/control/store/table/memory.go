package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
	"aloft/internal/memory"
)

// AddMemory implements [store.Memories].
func (s *Store) AddMemory(ctx context.Context, m memory.Memory) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	err = s.db.Write(ctx, memories, func(tx *Tx) error {
		err := tx.Refused(tx.Q.AddMemory(tx.Ctx, query.AddMemoryParams{ID: m.ID, Repo: m.Repo, CreatedAt: nanos(m.CreatedAt), Data: string(data)}))
		tx.Wrote = err == nil
		return err
	})
	if err != nil {
		return fmt.Errorf("add memory %s: %w", m.ID, err)
	}
	return nil
}

// PutMemory implements [store.Memories].
func (s *Store) PutMemory(ctx context.Context, m memory.Memory) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return s.changeMemory(ctx, "put", m.ID, func(tx *Tx) (int64, error) {
		return tx.Q.PutMemory(tx.Ctx, query.PutMemoryParams{Data: string(data), ID: m.ID, Revision: m.Revision})
	})
}

// DeleteMemory implements [store.Memories].
func (s *Store) DeleteMemory(ctx context.Context, id string, revision int64) error {
	return s.changeMemory(ctx, "delete", id, func(tx *Tx) (int64, error) {
		return tx.Q.DeleteMemory(tx.Ctx, query.DeleteMemoryParams{ID: id, Revision: revision})
	})
}

// changeMemory runs a statement that changes the memory if it has the expected revision.
func (s *Store) changeMemory(ctx context.Context, verb, id string, change func(*Tx) (int64, error)) error {
	err := s.db.Write(ctx, memories, func(tx *Tx) error {
		n, err := change(tx)
		if tx.Wrote = n > 0; err != nil || n > 0 {
			return err
		}
		if _, err := tx.Q.GetMemory(tx.Ctx, id); err != nil {
			return readError(err)
		}
		return store.ErrMoved
	})
	if err != nil {
		return fmt.Errorf("%s memory %s: %w", verb, id, err)
	}
	return nil
}

// Memory implements [store.Memories].
func (s *Store) Memory(ctx context.Context, id string) (memory.Memory, error) {
	row, err := s.read.GetMemory(ctx, id)
	if err != nil {
		return memory.Memory{}, fmt.Errorf("memory: %w", readError(err))
	}
	return memoryOf(row.Revision, row.Data)
}

// ListMemories implements [store.Memories].
func (s *Store) ListMemories(ctx context.Context, repo string) ([]memory.Memory, error) {
	rows, err := s.read.ListMemories(ctx, repo)
	if err != nil {
		return nil, fmt.Errorf("list memories: %w", readError(err))
	}
	list := make([]memory.Memory, len(rows))
	var errs []error
	for i, row := range rows {
		list[i], err = memoryOf(row.Revision, row.Data)
		errs = append(errs, err)
	}
	return list, errors.Join(errs...)
}

// MemoryRepos implements [store.Memories].
func (s *Store) MemoryRepos(ctx context.Context) ([]string, error) {
	repos, err := s.read.ListMemoryRepos(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the repositories with memories: %w", readError(err))
	}
	return repos, nil
}

func memoryOf(revision int64, data string) (memory.Memory, error) {
	var m memory.Memory
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		return m, fmt.Errorf("decode a memory: %w", err)
	}
	m.Revision = revision
	return m, nil
}
