// Package webhook notifies the webhooks of agents when a run has ended or an
// approval request is pending. Deliveries are an outbox in the store, written
// in the same transaction as the journal event, so that a crash neither loses
// nor duplicates them. A sender claims due deliveries, posts them, and records
// the outcome. If it dies between a receiver's reply and the record, the
// receiver gets the delivery again, with the same id.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/safe"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/text"
)

// Timing and limits of deliveries.
const (
	sendWithin = 10 * time.Second
	claimedFor = time.Minute // longer than an attempt takes
	atOnce     = 16
	firstWait  = 10 * time.Second // delay after the first attempt; doubles each time
	longest    = time.Hour
	maxError   = 500  // bytes of a stored error
	maxSubject = 8000 // bytes of a request's subject; the API returns the whole subject
)

// Store is the part of the store that a sender uses.
type Store interface {
	store.Deliveries
	Agent(ctx context.Context, id string) (agent.Agent, error)
	Run(ctx context.Context, agentID, runID string) (agent.Run, error)
	Read(ctx context.Context, agentID string, after int64, limit int) ([]agent.Event, error)
}

// Config configures a sender. All fields but Logger, Every and Wait are
// required.
type Config struct {
	Store Store
	Owner string // this server's name
	// Webhook returns the agent's webhook. If there is none, its error is a
	// fault of kind NotFound.
	Webhook func(ctx context.Context, agentID string) (safe.Webhook, error)
	// Shown reports whether the agent's messages in a run may be sent to other
	// services. If it is nil, all messages may be sent.
	Shown func(ctx context.Context, a agent.Agent, r agent.Run) (bool, error)
	// Post sends a body without following redirects, and returns the status.
	// Its error contains no secret.
	Post      func(ctx context.Context, url string, header http.Header, body io.Reader) (int, error)
	PublicURL func() string
	Logger    *slog.Logger
	Every     time.Duration                    // interval of looking for due deliveries; default a second
	Wait      func(attempts int) time.Duration // delay before the next attempt; default [Backoff]
}

// Sender sends deliveries.
type Sender struct {
	Config
	free    chan struct{} // holds a token for each attempt that may start
	sending sync.WaitGroup
}

// New returns a sender. Run starts it.
func New(c Config) *Sender {
	c.Every = cmp.Or(c.Every, time.Second)
	if c.Wait == nil {
		c.Wait = Backoff
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sender{Config: c, free: make(chan struct{}, atOnce)}
	for range atOnce {
		s.free <- struct{}{}
	}
	return s
}

// Backoff returns how long to wait after the given number of attempts: ten
// seconds, doubling up to an hour, with 10 % jitter.
func Backoff(attempts int) time.Duration {
	wait := longest
	if doubled := attempts - 1; doubled < 9 {
		wait = min(firstWait<<max(doubled, 0), longest)
	}
	return wait*9/10 + rand.N(wait/5)
}

// Run sends due deliveries until ctx ends. Deliveries that this server was
// sending when it died are due at once.
func (s *Sender) Run(ctx context.Context) error {
	defer s.sending.Wait()
	released := false
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for {
		var err error
		if !released {
			err = s.Store.ReleaseDeliveries(ctx, s.Owner)
			released = err == nil
		}
		if err == nil {
			err = s.sendDue(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.Logger.Error("cannot read the outbox of webhooks", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sendDue starts attempts for due deliveries, up to the maximum number of
// parallel attempts.
func (s *Sender) sendDue(ctx context.Context) error {
	slots := len(s.free)
	if slots == 0 {
		return nil
	}
	due, err := s.Store.ClaimDeliveries(ctx, s.Owner, claimedFor, slots)
	if err != nil {
		return err
	}
	for _, d := range due {
		<-s.free // does not block, since no other goroutine takes tokens
		s.sending.Go(func() {
			defer func() { s.free <- struct{}{} }()
			s.attempt(ctx, d)
		})
	}
	return nil
}

// attempt sends a delivery once and records the outcome. An attempt does not
// count if the server's shutdown aborts it.
func (s *Sender) attempt(ctx context.Context, d store.Delivery) {
	status, err := s.send(ctx, d)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	d.Attempts++
	d.LastAt, d.LastStatus, d.LastError = now, status, ""
	switch {
	case err != nil:
		d.LastError = strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxError)], "")
	case status/100 != 2:
		d.LastError = fmt.Sprintf("it answers %d %s", status, http.StatusText(status))
	}
	d.NextAt = now.Add(s.Wait(d.Attempts))
	switch {
	case d.LastError == "":
		d.State, d.NextAt = store.DeliveryDone, now
	case d.NextAt.After(d.Until):
		d.State, d.NextAt = store.DeliveryFailed, now
	default:
		d.State = store.DeliveryPending
	}
	s.Logger.Info("webhook delivered", "agent", d.AgentID, "delivery", d.ID, "attempt", d.Attempts, "status", status, "state", d.State)
	if err := s.Store.PutAttempt(ctx, d); err != nil && !errors.Is(err, store.ErrNotFound) {
		s.Logger.Error("cannot record a delivery; it will be sent again", "delivery", d.ID, "err", err)
	}
}

// send posts a delivery.
func (s *Sender) send(ctx context.Context, d store.Delivery) (status int, err error) {
	hook, err := s.Webhook(ctx, d.AgentID)
	if err != nil {
		return 0, errors.New(fault.Of(err).Message)
	}
	body, err := s.body(ctx, d)
	if err != nil {
		return 0, errors.New(fault.Of(err).Message)
	}
	header := http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Aloft"},
		"X-Webhook-ID": {d.ID}, "X-Webhook-Event": {string(d.Event)},
	}
	if hook.Secret != "" {
		header.Set("X-Webhook-Signature", Sign(hook.Secret, body))
	}
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	return s.Post(ctx, hook.URL, header, bytes.NewReader(body))
}

// Sign returns the signature of a body: sha256= and the HMAC in hex.
func Sign(key string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

type payload struct {
	Event     store.DeliveryEvent `json:"event"`
	Timestamp time.Time           `json:"timestamp"`
	ID        string              `json:"id"`
	Status    string              `json:"status"` // ERROR or FINISHED; RUNNING while a request is pending
	Source    source              `json:"source"`
	Target    target              `json:"target"`
	Summary   string              `json:"summary,omitempty"`
	Outcome   agent.Outcome       `json:"outcome,omitempty"`
	Evidence  *agent.Evidence     `json:"evidence,omitempty"` // absent if messages are hidden
	Approval  *question           `json:"approval,omitempty"`
}

// question is an approval request in the API's form.
type question struct {
	ID      string     `json:"id"`
	RunID   string     `json:"runId"`
	Tool    string     `json:"tool"`
	Subject string     `json:"subject"`
	Reason  string     `json:"reason,omitempty"`
	Why     string     `json:"why"`
	Entries []string   `json:"entries"`
	Until   *time.Time `json:"until,omitempty"`
	// Questions are the agent's own questions, shortened.
	Questions []agent.Question `json:"questions,omitempty"`
}

type source struct {
	Repository string `json:"repository,omitempty"`
	Ref        string `json:"ref,omitempty"`
}

type target struct {
	URL        string `json:"url"`
	BranchName string `json:"branchName,omitempty"`
	PRURL      string `json:"prUrl,omitempty"`
}

// body returns the body of a delivery. It is the same for each attempt, unless
// in between a pull request was opened or the summary was hidden.
func (s *Sender) body(ctx context.Context, d store.Delivery) ([]byte, error) {
	a, err := s.Store.Agent(ctx, d.AgentID)
	if err != nil {
		return nil, err
	}
	run, err := s.Store.Run(ctx, d.AgentID, d.RunID)
	if err != nil {
		return nil, err
	}
	first, err := s.Store.Read(ctx, d.AgentID, 0, 1)
	if err != nil {
		return nil, err
	}
	p := payload{
		Event: d.Event, Timestamp: run.EndedAt.UTC().Truncate(time.Millisecond), ID: a.ID,
		Target: target{URL: strings.TrimSuffix(s.PublicURL(), "/") + "/agents/" + a.ID},
	}
	if len(a.Repos) > 0 {
		p.Source = source{a.Repos[0].URL, a.Repos[0].StartingRef}
	}
	shown := true
	if s.Shown != nil {
		if shown, err = s.Shown(ctx, a, run); err != nil {
			return nil, err
		}
	}
	if d.Event == store.ApprovalRequested {
		return s.questionBody(ctx, d, p, shown)
	}
	p.Status, p.Summary, p.Outcome, p.Evidence = string(agent.Failed), run.Result, run.Outcome, run.Evidence
	if run.Status == agent.Finished || run.Status == agent.Cancelled { // as in /v0, a cancelled run counts as finished
		p.Status = string(agent.Finished)
	}
	if run.Failure != nil && (p.Summary == "" || run.Status == agent.Expired) { // the last message does not say why the run ended
		p.Summary = strings.TrimSpace(run.Failure.Message + "\n\n" + p.Summary)
	}
	if !shown {
		p.Summary, p.Evidence = "", nil
	}
	if len(run.Branches) > 0 {
		p.Target.BranchName = run.Branches[0].Branch
		if pr := a.PullRequest(run.Branches[0].RepoURL, run.Branches[0].Branch); pr != nil {
			p.Target.PRURL = pr.URL
		}
	} else if len(first) > 0 {
		if made, ok := first[0].Body.(*agent.Created); ok {
			p.Target.BranchName = made.Branch
		}
	}
	return json.Marshal(p)
}

// questionBody fills in the approval request in its original form.
func (s *Sender) questionBody(ctx context.Context, d store.Delivery, p payload, shown bool) ([]byte, error) {
	events, err := s.Store.Read(ctx, d.AgentID, d.Seq-1, 1)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		asked, ok := e.Body.(*agent.ApprovalAsked)
		if !ok {
			continue
		}
		q := asked.Approval
		p.Timestamp, p.Status, p.Summary = q.AskedAt.UTC().Truncate(time.Millisecond), string(agent.Running), q.Why
		p.Approval = &question{
			ID: q.ID, RunID: q.RunID, Tool: q.Tool, Subject: cut(q.Subject), Reason: q.Reason, Why: q.Why, Entries: append([]string{}, q.Entries...), Questions: q.Questions,
		}
		if !q.Until.IsZero() {
			p.Approval.Until = &q.Until
		}
		if !shown { // report only that a request is pending, and where to answer it
			p.Summary = ""
			p.Approval = &question{ID: q.ID, RunID: q.RunID, Tool: q.Tool, Entries: []string{}, Until: p.Approval.Until}
		}
		return json.Marshal(p)
	}
	return nil, fault.NotFound("the question is not in the journal of %s", d.AgentID)
}

func cut(s string) string { return text.Abbreviate(s, maxSubject, " …") }
