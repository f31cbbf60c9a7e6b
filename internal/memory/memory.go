// Package memory defines memories: short texts that agents write down about a
// repository for later agents that work on it. A memory is data: it informs an agent and
// grants nothing.
package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/rule"
)

// Limits.
const (
	MaxTitle   = 100      // characters
	MaxText    = 2000     // bytes
	MaxPerRepo = 100      // memories of one repository, including proposed ones
	MaxTotal   = 24 << 10 // bytes of all titles and texts of one repository, including proposed ones
)

// A Memory is one memory of a repository.
type Memory struct {
	ID   string `json:"id"`   // mem- and 32 hexadecimal digits
	Repo string `json:"repo"` // host/path
	// Title and Text are what agents get. Text is "" until a person has approved the
	// memory.
	Title string `json:"title,omitempty"`
	Text  string `json:"text,omitempty"`
	// Proposal is a change that waits for a person; nil if there is none.
	Proposal  *Proposal `json:"proposal,omitempty"`
	Author    Author    `json:"author"` // who wrote Text, or proposed it if there is none yet
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	// Revision counts the changes of the memory, from 1. Whoever changes it names the
	// revision that they have seen.
	Revision int64 `json:"-"`
}

// An Author is the run that wrote a memory, or the person who edited or approved it last.
type Author struct {
	AgentID string `json:"agentId,omitempty"` // the agent that wrote it; "" if a person did
	RunID   string `json:"runId,omitempty"`
	UserID  int64  `json:"userId,omitempty"` // the person who edited or approved it; 0 if nobody did
}

// A Proposal is a change of a memory by an agent.
type Proposal struct {
	Delete bool      `json:"delete,omitempty"` // Title and Text are "" then
	Title  string    `json:"title,omitempty"`
	Text   string    `json:"text,omitempty"`
	By     Author    `json:"by"`
	At     time.Time `json:"at"`
}

// Approved reports whether agents get the memory.
func (m Memory) Approved() bool { return m.Text != "" }

// Size returns the number of bytes that count for [MaxTotal].
func (m Memory) Size() int {
	n := len(m.Title) + len(m.Text)
	if m.Proposal != nil {
		n += len(m.Proposal.Title) + len(m.Proposal.Text)
	}
	return n
}

// Accept applies the proposal. gone is true if the memory is to be deleted.
func (m *Memory) Accept(by int64, now time.Time) (gone bool) {
	p := m.Proposal
	if p.Delete {
		return true
	}
	m.Title, m.Text, m.Proposal, m.UpdatedAt = p.Title, p.Text, nil, now
	m.Author = p.By
	m.Author.UserID = by
	return false
}

// ID returns the id of the memory that a call of an agent creates. A call that is
// repeated after a crash has the same id.
func ID(agentID, callID string) string {
	sum := sha256.Sum256([]byte(agentID + "\x00" + callID))
	return "mem-" + hex.EncodeToString(sum[:16])
}

// Clean returns a title and a text without surrounding space and without characters that
// a reviewer does not see. The error says which limit they exceed.
func Clean(title, text string) (cleanTitle, cleanText string, err error) {
	visible := func(s string) string {
		s, _ = rule.Visible(strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n"))
		return strings.TrimSpace(s)
	}
	title, text = strings.Join(strings.Fields(visible(title)), " "), visible(text)
	switch {
	case title == "":
		return "", "", fmt.Errorf("the title is empty")
	case utf8.RuneCountInString(title) > MaxTitle:
		return "", "", fmt.Errorf("the title has more than %d characters", MaxTitle)
	case text == "":
		return "", "", fmt.Errorf("the text is empty")
	case len(text) > MaxText:
		return "", "", fmt.Errorf("the text has %d bytes, more than %d", len(text), MaxText)
	}
	return title, text, nil
}

// Rule returns the memory as a rule for an agent's conversation.
func (m Memory) Rule() rule.Rule {
	return rule.Rule{
		Source: "memory/" + m.ID, From: rule.Memory, When: rule.Always,
		Text: fmt.Sprintf("%s (memory %s of %s)\n%s", m.Title, m.ID, m.Repo, m.Text),
	}
}

// Fits returns an error if a repository that has the memories all has no room for m,
// which is new or replaces the memory with its id.
func Fits(all []Memory, m Memory) error {
	n, size := 1, m.Size()
	for _, o := range all {
		if o.ID != m.ID {
			n++
			size += o.Size()
		}
	}
	switch {
	case n > MaxPerRepo:
		return fmt.Errorf("the repository has %d memories, which is the limit: delete or merge some", MaxPerRepo)
	case size > MaxTotal:
		return fmt.Errorf("all memories of the repository would have %d bytes, more than %d: delete or shorten some", size, MaxTotal)
	}
	return nil
}
