package mirror

import (
	"context"
	"strings"
)

// Limits of the answers that a mirror keeps in memory.
const (
	maxAnswer  = 16 << 10 // bytes of one answer
	maxAnswers = 256
)

// answer runs git with arguments that name objects by full ids only, and
// returns git's output. The output for such arguments never changes, so it is
// cached: an agent's page requests the same few files every few seconds, and
// each git process takes milliseconds. The caller must not modify the result.
func (m *Mirror) answer(ctx context.Context, args []string) ([]byte, error) {
	key := strings.Join(args, "\x00")
	m.mu.Lock()
	known, ok := m.answers[key]
	m.mu.Unlock()
	if ok {
		return known, nil
	}
	out, _, err := m.git(ctx, invocation{args: args})
	if err != nil || len(out) > maxAnswer {
		return out, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers == nil {
		m.answers = map[string][]byte{}
	}
	for other := range m.answers { // evict in random order
		if len(m.answers) < maxAnswers {
			break
		}
		delete(m.answers, other)
	}
	m.answers[key] = out
	return out, nil
}
