package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

// Rule implements [store.Rules].
func (s *Store) Rule(ctx context.Context, owner, name string) (string, error) {
	text, err := s.read.GetRule(ctx, query.GetRuleParams{Owner: owner, Name: name})
	err = readError(err)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s of %s: %w", name, owner, err)
	}
	return text, nil
}

// SetRule implements [store.Rules].
func (s *Store) SetRule(ctx context.Context, owner, name, text string) error {
	err := s.db.Write(ctx, alone, func(tx *Tx) error {
		tx.Wrote = true
		return tx.Q.PutRule(tx.Ctx, query.PutRuleParams{Owner: owner, Name: name, Text: text, UpdatedAt: nanos(time.Now())})
	})
	if err != nil {
		return fmt.Errorf("set %s of %s: %w", name, owner, err)
	}
	return nil
}
