package automations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/automation"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// automationSpecJSON is a spec in a request, in which unknown fields are refused.
type automationSpecJSON struct{ automation.Spec }

// UnmarshalJSON implements [json.Unmarshaler].
func (s *automationSpecJSON) UnmarshalJSON(data []byte) (err error) {
	if len(data) > automation.MaxSpec {
		return fault.Invalid("has %d bytes; the limit is %d", len(data), automation.MaxSpec).At("spec")
	}
	s.Spec, err = automation.ParseJSON(data)
	return inSpec(err)
}

// inSpec names the field of a fault as a part of the request.
func inSpec(err error) error {
	if err == nil {
		return nil
	}
	f := fault.Of(err)
	if f.Field == "" {
		return f.At("spec")
	}
	return f.At("spec." + f.Field)
}

type createRequestJSON struct {
	_      struct{}           `json:"-" additionalProperties:"true"`
	Spec   automationSpecJSON `json:"spec"`
	State  string             `json:"state,omitempty" enum:"draft,active,paused" doc:"default active"`
	UserID int64              `json:"userId,omitempty" minimum:"1" doc:"owner of its agents; default the caller; only admins may name others"`
}

type updateRequestJSON struct {
	_       struct{}            `json:"-" additionalProperties:"true"`
	Spec    *automationSpecJSON `json:"spec,omitempty"`
	State   *string             `json:"state,omitempty" enum:"draft,active,paused"`
	UserID  *int64              `json:"userId,omitempty" minimum:"1" doc:"owner of its agents; only admins may name others"`
	Version int64               `json:"version,omitempty" minimum:"1" doc:"version of the spec that this changes; the request fails if it is no longer the current one"`
}

type sourceJSON struct {
	_          struct{} `json:"-" additionalProperties:"true"`
	Repository string   `json:"repository"`
	Path       string   `json:"path"`
	Commit     string   `json:"commit"`
}

type automationJSON struct {
	_         struct{}           `json:"-" additionalProperties:"true"`
	ID        string             `json:"id"`
	Spec      automationSpecJSON `json:"spec"`
	State     string             `json:"state" enum:"draft,active,paused"`
	Reason    string             `json:"reason,omitempty" doc:"why it is paused"`
	UserID    int64              `json:"userId" doc:"owner of its agents"`
	CreatedBy int64              `json:"createdBy"`
	Source    *sourceJSON        `json:"source,omitempty" doc:"the file that defines it; such an automation is changed in the file"`
	Version   int64              `json:"version" minimum:"1"`
	NextAt    *time.Time         `json:"nextAt,omitempty" doc:"next scheduled time, without jitter"`
	Failures  int                `json:"failures" minimum:"0" doc:"failed starts in a row"`
	CreatedAt time.Time          `json:"createdAt"`
	UpdatedAt time.Time          `json:"updatedAt"`
}

type listResponseJSON struct {
	_          struct{}         `json:"-" additionalProperties:"true"`
	Items      []automationJSON `json:"items" nullable:"false"`
	NextCursor string           `json:"nextCursor,omitempty" minLength:"1"`
}

func jsonOf(a store.Automation) (out automationJSON, err error) {
	s, err := automation.Decode(a.Spec)
	out = automationJSON{
		ID: a.ID, Spec: automationSpecJSON{s}, State: string(a.State), Reason: a.Reason, UserID: a.UserID, CreatedBy: a.CreatedBy, Version: a.Version, Failures: a.Failures,
		NextAt: stamp(a.NextAt), CreatedAt: rest.Stamp(a.CreatedAt), UpdatedAt: rest.Stamp(a.UpdatedAt),
	}
	if a.Repo != "" {
		out.Source = &sourceJSON{Repository: a.Repo, Path: a.Path, Commit: a.Commit}
	}
	if a.State != store.AutomationActive {
		out.NextAt = nil
	}
	return out, err
}

// stamp returns a time for JSON, or nil if it is zero.
func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = rest.Stamp(t)
	return &t
}

func write(w http.ResponseWriter, status int, a store.Automation) error {
	out, err := jsonOf(a)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, status, out)
}

// automation returns an automation that the caller may see: their own, or any if
// the caller is an admin or, to read it, a viewer. Another person's automation is
// "not found".
func (s *API) automation(ctx context.Context, who account.APIKey, id string) (store.Automation, error) {
	a, err := s.Store.Automation(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && !who.MaySee(a.UserID) {
		return a, fault.NotFound("no automation %s", fault.Quoted(id)).Named("automation_not_found").Hint("list them with GET /v1/automations")
	}
	return a, err
}

// check validates a spec for its owner, on behalf of the caller.
func (s *API) check(ctx context.Context, who account.APIKey, spec automation.Spec, userID int64) error {
	if err := spec.Check(); err != nil {
		return inSpec(err)
	}
	if on := spec.On.Event; on != nil && on.Connection != "" && !who.Role.Covers(account.Admin) {
		return fault.Denied("only admins may use all events of a connection").Named("role_forbidden").At("spec.on.event.connection").Hint("omit it to get the events of the repository")
	}
	owner := who
	if userID != who.UserID {
		if !who.Role.Covers(account.Admin) {
			return fault.Denied("only admins may let another person own the agents").Named("role_forbidden").At("userId")
		}
		var err error
		owner, err = agents.ActFor(ctx, s.Accounts, userID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return fault.Invalid("there is no user %d", userID).At("userId")
		case err != nil:
			return err
		case owner.Role.Covers(account.Owner) && !who.Role.Covers(account.Owner):
			return fault.Denied("only owners may let an owner own the agents").Named("role_forbidden").At("userId")
		}
	}
	err := s.MayReach(ctx, owner, []agent.Repo{{URL: spec.Repository}})
	if err != nil {
		return fault.Of(err).At("spec.repository")
	}
	return nil
}

// maxOwned is how many automations an account may own. The server reads all automations
// for events when an event arrives.
const maxOwned = 100

// mayOwn returns a fault if the account owns as many automations as it may.
func (s *API) mayOwn(ctx context.Context, userID int64) error {
	owned, err := s.Store.Automations(ctx, store.AutomationQuery{Page: store.Page{Limit: maxOwned}, UserID: userID})
	if err != nil || len(owned) < maxOwned {
		return err
	}
	return fault.Exhausted("the account owns %d automations, which is the limit", maxOwned).Named("usage_limit_exceeded").Hint("delete some")
}

// parseState returns the state of a request.
func parseState(s string) (store.AutomationState, error) {
	switch state := store.AutomationState(s); state {
	case "":
		return store.AutomationActive, nil
	case store.AutomationDraft, store.AutomationActive, store.AutomationPaused:
		return state, nil
	}
	return "", fault.Invalid("must be draft, active or paused").At("state")
}

func (s *API) create(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	var in createRequestJSON
	if err := read(w, r, &in); err != nil {
		return err
	}
	state, err := parseState(in.State)
	if err != nil {
		return err
	}
	if in.UserID == 0 {
		in.UserID = who.UserID
	}
	if err := s.check(r.Context(), who, in.Spec.Spec, in.UserID); err != nil {
		return err
	}
	if err := s.mayOwn(r.Context(), in.UserID); err != nil {
		return err
	}
	data, err := json.Marshal(in.Spec.Spec)
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	a := store.Automation{ID: automation.NewID(), UserID: in.UserID, CreatedBy: who.UserID, Spec: data, Version: 1, State: state, CreatedAt: now, UpdatedAt: now}
	if err := automation.Plan(&a, in.Spec.Spec, now); err != nil {
		return err
	}
	if err := s.Store.AddAutomation(r.Context(), a); err != nil {
		return err
	}
	return write(w, http.StatusCreated, a)
}

// read decodes the request's JSON. Faults of a spec name its field.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	err := rest.ReadBody(w, r, into)
	if wrong, ok := errors.AsType[*fault.Error](err); ok {
		return wrong
	}
	return err
}

func (s *API) list(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	p, limit, err := rest.Page(r.URL.Query(), automationList)
	if err != nil {
		return err
	}
	all, err := rest.Boolean(r.URL.Query(), "all", false)
	if err != nil {
		return err
	}
	q := store.AutomationQuery{Page: p, UserID: who.UserID}
	if all && who.MaySee(0) {
		q.UserID = 0
	}
	found, err := s.Store.Automations(r.Context(), q)
	if err != nil {
		return err
	}
	out := listResponseJSON{Items: []automationJSON{}}
	found, out.NextCursor = rest.Cut(automationList, found, limit, func(a store.Automation) (time.Time, string) { return a.CreatedAt, a.ID })
	for _, a := range found {
		one, err := jsonOf(a)
		if err != nil {
			return err
		}
		out.Items = append(out.Items, one)
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *API) get(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.automation(r.Context(), who, r.PathValue("automationId"))
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, a)
}

func (s *API) update(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.automation(r.Context(), who, r.PathValue("automationId"))
	if err != nil {
		return err
	}
	var in updateRequestJSON
	if err := read(w, r, &in); err != nil {
		return err
	}
	spec, err := automation.Decode(a.Spec)
	if err != nil {
		return err
	}
	state, owner := a.State, a.UserID
	if in.State != nil {
		if state, err = parseState(*in.State); err != nil {
			return err
		}
	}
	if in.Spec != nil {
		spec = in.Spec.Spec
	}
	if in.UserID != nil {
		owner = *in.UserID
	}
	switch {
	case a.Repo != "" && (in.Spec != nil || in.UserID != nil):
		return fault.Conflict("the file %s of the repository defines the automation", a.Path).Named("automation_in_file").Hint("change the file at the default branch")
	case in.Spec != nil || in.UserID != nil:
		if err = s.check(r.Context(), who, spec, owner); err == nil && owner != a.UserID {
			err = s.mayOwn(r.Context(), owner)
		}
	case state == store.AutomationActive: // the spec of an invalid file must not become active
		err = inSpec(spec.Check())
	}
	if err != nil {
		return err
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	a, err = s.Store.ChangeAutomation(r.Context(), a.ID, func(a *store.Automation) ([]store.AutomationStart, error) {
		if in.Version != 0 && in.Version != a.Version {
			return nil, fault.Conflict("the automation has been changed since").Named("automation_changed").Hint("reload it and repeat your change")
		}
		if in.Spec != nil && !bytes.Equal(data, a.Spec) {
			a.Spec, a.Version = data, a.Version+1
		}
		if in.State != nil && a.State != state {
			a.State, a.Reason, a.Failures = state, "", 0
		}
		a.UserID, a.UpdatedAt = owner, now
		return nil, automation.Plan(a, spec, now)
	})
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	return write(w, http.StatusOK, a)
}

func (s *API) remove(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.automation(r.Context(), who, r.PathValue("automationId"))
	if err != nil {
		return err
	}
	if a.Repo != "" {
		return fault.Conflict("the file %s of the repository defines the automation", a.Path).Named("automation_in_file").Hint("delete the file at the default branch, or pause the automation")
	}
	if err := s.Store.DeleteAutomation(r.Context(), a.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: a.ID})
}
