-- name: TellTopic :exec
INSERT INTO topics (repo, number, issue, repo_url, agent_id, comment_id, handled, answer, shown, read, news, created_at, due_at, owner, until, attempts, problem)
VALUES (@repo, @number, @issue, @repo_url, '', '', '', '', '', 0, 1, @created_at, @due_at, '', 0, 0, '')
ON CONFLICT (repo, number, issue) DO UPDATE SET news = topics.news + 1,
  due_at = CASE WHEN topics.due_at < excluded.due_at THEN topics.due_at ELSE excluded.due_at END;

-- name: GetTopic :one
SELECT * FROM topics WHERE repo = @repo AND number = @number AND issue = @issue;

-- name: DueTopics :many
SELECT * FROM topics WHERE due_at <= @now AND until <= @now ORDER BY due_at LIMIT @most;

-- name: ClaimTopic :exec
UPDATE topics SET owner = @owner, until = @until, due_at = @until WHERE repo = @repo AND number = @number AND issue = @issue;

-- name: ReleaseTopics :exec
UPDATE topics SET owner = '', until = 0, due_at = @now WHERE owner = @owner;

-- name: PutTopic :execrows
UPDATE topics SET owner = '', until = 0, agent_id = @agent_id, comment_id = @comment_id, handled = @handled, answer = @answer, shown = @shown,
  read = @read, attempts = @attempts, problem = @problem,
  due_at = CASE WHEN news = @news THEN @due_at WHEN due_at < @due_at THEN due_at ELSE @due_at END
WHERE repo = @repo AND number = @number AND issue = @issue AND owner = @owner;
