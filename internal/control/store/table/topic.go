package table

import (
	"context"
	"fmt"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

// TellTopic implements [store.Topics].
func (s *Store) TellTopic(ctx context.Context, t store.Topic, due time.Time) error {
	err := s.db.Write(ctx, alone, func(tx *Tx) error {
		tx.Wrote = true
		return tx.Q.TellTopic(tx.Ctx, query.TellTopicParams{
			Repo: t.Repo, Number: int64(t.Number), Issue: number(t.Issue), RepoUrl: t.RepoURL, CreatedAt: time.Now().UnixNano(), DueAt: nanos(due),
		})
	})
	if err != nil {
		return fmt.Errorf("schedule number %d of %s: %w", t.Number, t.Repo, err)
	}
	return nil
}

// Topic implements [store.Topics].
func (s *Store) Topic(ctx context.Context, repo string, n int, issue bool) (store.Topic, error) {
	row, err := s.read.GetTopic(ctx, query.GetTopicParams{Repo: repo, Number: int64(n), Issue: number(issue)})
	if err != nil {
		return store.Topic{}, fmt.Errorf("read number %d of %s: %w", n, repo, readError(err))
	}
	return topicOf(row), nil
}

// ClaimTopics implements [store.Topics].
func (s *Store) ClaimTopics(ctx context.Context, owner string, again time.Duration, limit int) (all []store.Topic, err error) {
	now := time.Now()
	due := query.DueTopicsParams{Now: nanos(now), Most: int64(max(limit, 0))}
	rows, err := claimDue(ctx, s, topics, due, (*query.Queries).DueTopics, func(tx *Tx, row query.Topic) error {
		return tx.Q.ClaimTopic(tx.Ctx, query.ClaimTopicParams{Owner: owner, Until: nanos(now.Add(again)), Repo: row.Repo, Number: row.Number, Issue: row.Issue})
	})
	if err != nil {
		return nil, fmt.Errorf("claim topics: %w", err)
	}
	for _, row := range rows {
		all = append(all, topicOf(row))
	}
	return all, nil
}

// ReleaseTopics implements [store.Topics].
func (s *Store) ReleaseTopics(ctx context.Context, owner string) error {
	release := query.ReleaseTopicsParams{Now: time.Now().UnixNano(), Owner: owner}
	return writeOne(ctx, s, topics, "release topics", release, (*query.Queries).ReleaseTopics)
}

// PutTopic implements [store.Topics].
func (s *Store) PutTopic(ctx context.Context, owner string, t store.Topic) error {
	err := s.db.Write(ctx, topics, func(tx *Tx) error {
		n, err := tx.Q.PutTopic(tx.Ctx, query.PutTopicParams{
			AgentID: t.AgentID, CommentID: t.CommentID, Handled: t.Handled, Answer: t.Answer, Shown: t.Shown, Read: t.Read,
			Attempts: int64(t.Attempts), Problem: t.Problem, News: t.News, DueAt: nanos(t.DueAt),
			Repo: t.Repo, Number: int64(t.Number), Issue: number(t.Issue), Owner: owner,
		})
		if tx.Wrote = n > 0; err == nil && n == 0 {
			err = store.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("record number %d of %s: %w", t.Number, t.Repo, err)
	}
	return nil
}

func topicOf(row query.Topic) store.Topic {
	return store.Topic{
		Repo: row.Repo, Number: int(row.Number), Issue: row.Issue != 0, RepoURL: row.RepoUrl, AgentID: row.AgentID, CommentID: row.CommentID,
		Handled: row.Handled, Answer: row.Answer, Shown: row.Shown, Read: row.Read, CreatedAt: stamp(row.CreatedAt), DueAt: stamp(row.DueAt),
		News: row.News, Attempts: int(row.Attempts), Problem: row.Problem,
	}
}
