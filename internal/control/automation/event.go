package automation

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"aloft/internal/control/forge"
	"aloft/internal/control/inbound"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// Limits of what an automation keeps of an event.
const (
	maxPayload   = 256 << 10 // bytes of a body that filters and prompts can use
	maxEventText = 16 << 10  // bytes of each text
)

// Heard implements [inbound.Listener]: it starts the automations whose filters
// accept the event.
func (d *Desk) Heard(ctx context.Context, e inbound.Event) (acted bool, err error) {
	all, err := d.Store.EventAutomations(ctx)
	if err != nil || len(all) == 0 {
		return false, err
	}
	var matched []store.Automation
	facts := factsOf(e)
	for _, a := range all {
		s, err := Decode(a.Spec)
		if err != nil {
			return false, err
		}
		if !s.hears(e) {
			continue
		}
		ok, err := d.accepts(ctx, a, s, facts)
		if err != nil {
			d.Logger.WarnContext(ctx, "the filter of an automation fails", "automation", a.ID, "event", e.ID, "error", err)
		}
		if ok {
			matched = append(matched, a)
		}
	}
	if len(matched) == 0 {
		return false, nil
	}
	if err := d.mayStart(ctx, e); err != nil {
		return false, err
	}
	if err := d.read(ctx, e, facts); err != nil {
		return false, err
	}
	delete(facts, "text") // unverified; body and comment are read from the forge
	text, err := json.Marshal(facts)
	if err != nil {
		return false, err
	}
	for _, a := range matched {
		of := d.newStart(a, TriggerEvent, e.ID)
		of.EventID, of.Event = e.ID, text
		if _, err := d.Store.AddStart(ctx, of); err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
	}
	d.starts.Wake()
	return true, nil
}

// hears reports whether the automation gets the event at all: an event of its
// repository, or of a connection that it names.
func (s Spec) hears(e inbound.Event) bool {
	on := s.On.Event
	if on == nil || on.Connection != "" && on.Connection != e.Connection {
		return false
	}
	if e.Change.Repo == (forge.Repo{}) {
		return on.Connection != ""
	}
	own, err := forge.ParseURL(s.Repository)
	return err == nil && strings.EqualFold(own.String(), e.Change.Repo.String())
}

// accepts evaluates the automation's filter.
func (d *Desk) accepts(ctx context.Context, a store.Automation, s Spec, facts map[string]any) (bool, error) {
	d.mu.Lock()
	f, ok := d.filters[a.ID]
	d.mu.Unlock()
	if !ok || f.version != a.Version {
		e, err := compileFilter(s.On.Event.Filter)
		if err != nil {
			return false, err
		}
		f = filter{a.Version, e}
		d.mu.Lock()
		if len(d.filters) > 10_000 {
			clear(d.filters)
		}
		d.filters[a.ID] = f
		d.mu.Unlock()
	}
	return f.expression.accepts(ctx, values{event: facts, automation: map[string]any{"id": a.ID, "name": s.Name}})
}

// factsOf returns what a filter can use of an event.
func factsOf(e inbound.Event) map[string]any {
	c := e.Change
	facts := map[string]any{
		"id": e.ID, "source": e.Source, "connection": e.Connection, "type": e.Kind, "kind": string(c.Kind), "receivedAt": e.ReceivedAt.UTC().Format("2006-01-02T15:04:05Z"),
		"repository": "", "number": c.Number, "issue": c.OnIssue, "branch": c.Branch, "commit": c.Commit, "check": c.Check, "actor": c.Actor,
		"text": forge.Cut(c.Text, maxEventText), "title": "", "body": "", "author": "", "url": "", "comment": "",
	}
	if c.Repo != (forge.Repo{}) {
		facts["repository"] = c.Repo.String()
	}
	var payload any
	if len(e.Body) <= maxPayload && json.Unmarshal(e.Body, &payload) == nil {
		facts["payload"] = payload
	}
	return facts
}

// mayStart returns an [inbound.Ignored] if the event may not start automations. Events
// of bots and of people without write access may not. Events about pull requests of
// this server's agents may not either, because the agents that they start would cause
// more of them.
func (d *Desk) mayStart(ctx context.Context, e inbound.Event) error {
	c := e.Change
	if c.Repo == (forge.Repo{}) {
		return nil // only holders of the connection's secret can send it
	}
	pulls, err := d.Store.PullsOf(ctx, strings.ToLower(c.Repo.String()))
	if err != nil {
		return err
	}
	for _, w := range pulls {
		if c.Number > 0 && !c.OnIssue && w.Number == c.Number || c.Branch != "" && w.Branch == c.Branch {
			return inbound.Ignored("an agent has opened the pull request")
		}
	}
	f, r, err := d.Forges.Find(c.Repo)
	if err != nil {
		if !c.Bot && c.Actor == "" {
			return nil
		}
		return inbound.Ignored("no git server is configured for " + c.Repo.Host + ", so it is unknown whether " + c.Actor + " may write to the repository")
	}
	return c.CheckActor(ctx, f, r)
}

// read adds what the forge says about the issue or pull request of the event.
func (d *Desk) read(ctx context.Context, e inbound.Event, facts map[string]any) error {
	c := e.Change
	if c.Number <= 0 || c.Repo == (forge.Repo{}) {
		return nil
	}
	f, r, err := d.Forges.Find(c.Repo)
	if err != nil {
		return nil //nolint:nilerr // without a forge, the event has no text
	}
	err = d.readSubject(ctx, f, r, c, facts)
	if fault.Is(err, fault.KindNotFound) || fault.Is(err, fault.KindDenied) {
		return nil
	}
	return err
}

func (d *Desk) readSubject(ctx context.Context, f forge.Forge, r forge.Repo, c inbound.Change, facts map[string]any) error {
	var comments func() ([]forge.Comment, error)
	if c.OnIssue {
		issues, ok := f.(forge.Issues)
		if !ok {
			return nil
		}
		v, err := issues.Issue(ctx, r, c.Number)
		if err != nil {
			return err
		}
		facts["title"], facts["body"], facts["author"], facts["url"] = forge.Line(v.Title, 500), forge.Cut(v.Body, maxEventText), v.Author, v.URL
		comments = func() ([]forge.Comment, error) { return issues.IssueComments(ctx, r, c.Number) }
	} else {
		v, err := f.Get(ctx, r, c.Number)
		if err != nil {
			return err
		}
		facts["title"], facts["body"], facts["author"], facts["url"] = forge.Line(v.Title, 500), forge.Cut(v.Body, maxEventText), v.Author, v.URL
		if facts["branch"] == "" {
			facts["branch"] = v.Head
		}
		if on, ok := f.(forge.Discussion); ok {
			comments = func() ([]forge.Comment, error) { return on.Comments(ctx, r, c.Number) }
		}
	}
	if c.CommentID == "" || comments == nil {
		return nil
	}
	all, err := comments()
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.ID == c.CommentID {
			facts["comment"] = forge.Cut(one.Body, maxEventText)
		}
	}
	return nil
}

// Trial is the result of [Desk.Try].
type Trial struct {
	Accepted bool   // whether the event would start the automation
	Reason   string // why not, or ""
	Prompt   string // "" unless Accepted
}

// Try returns what an event would do to an automation, without starting it. The
// event is nil for a start by hand. The error is a fault if the inputs or the
// prompt are invalid.
func (d *Desk) Try(ctx context.Context, a store.Automation, e *inbound.Event, inputs json.RawMessage) (t Trial, err error) {
	s, err := Decode(a.Spec)
	if err != nil {
		return t, err
	}
	of := d.newStart(a, TriggerManual, "trial")
	of.Inputs = inputs
	if e != nil {
		facts := factsOf(*e)
		if !s.hears(*e) {
			return Trial{Reason: "the event is neither about the automation's repository nor of the connection that it names"}, nil
		}
		ok, err := d.accepts(ctx, a, s, facts)
		switch {
		case err != nil:
			return Trial{Reason: "the filter fails: " + err.Error()}, nil //nolint:nilerr // the failure is the answer
		case !ok:
			return Trial{Reason: "the filter does not accept the event"}, nil
		}
		err = d.mayStart(ctx, *e)
		if ignored, ok := errors.AsType[inbound.Ignored](err); ok {
			return Trial{Reason: string(ignored)}, nil
		}
		if err == nil {
			err = d.read(ctx, *e, facts)
		}
		if err != nil {
			return t, err
		}
		delete(facts, "text")
		of.Trigger, of.EventID = TriggerEvent, e.ID
		if of.Event, err = json.Marshal(facts); err != nil {
			return t, err
		}
	}
	earlier, err := d.Store.AutomationStarts(ctx, a.ID, store.Page{Limit: 10 * maxMemory})
	if err != nil {
		return t, err
	}
	prompt, err := s.prompt(ctx, of, earlier)
	return Trial{Accepted: err == nil, Prompt: d.clean(prompt)}, err
}
