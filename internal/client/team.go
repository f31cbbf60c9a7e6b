package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// User is a user of the server.
type User struct {
	ID        int64  `json:"id"`
	Email     string `json:"email,omitempty"`
	FirstName string `json:"firstName,omitempty"`
	LastName  string `json:"lastName,omitempty"`
	Role      string `json:"role"` // owner, admin, member, viewer
	Disabled  bool   `json:"disabled,omitempty"`
}

// Link is a one-time sign-in link.
type Link struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Invited is a new member and their first sign-in link.
type Invited struct {
	Member User `json:"member"`
	Link   Link `json:"link"`
}

// Members returns the members of the team.
func (c *Client) Members(ctx context.Context) ([]User, error) {
	var out struct {
		Items []User `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, "/v1/members", nil, &out)
}

// Invite adds a member. It ignores the fields ID and Disabled of u.
func (c *Client) Invite(ctx context.Context, u User) (out Invited, err error) {
	in := map[string]string{"email": u.Email, "firstName": u.FirstName, "lastName": u.LastName, "role": u.Role}
	return out, c.callWith(ctx, request{method: http.MethodPost, path: "/v1/members", in: in}, &out)
}

// MemberUpdate is a change of a member. Nil fields change nothing.
type MemberUpdate struct {
	Email    *string `json:"email,omitempty"`
	Role     *string `json:"role,omitempty"`
	Disabled *bool   `json:"disabled,omitempty"`
}

func memberPath(id int64) string { return "/v1/members/" + strconv.FormatInt(id, 10) }

// UpdateMember changes a member.
func (c *Client) UpdateMember(ctx context.Context, id int64, in MemberUpdate) (out User, err error) {
	return out, c.callWith(ctx, request{method: http.MethodPatch, path: memberPath(id), in: in}, &out)
}

// SignInLink creates a sign-in link for a member.
func (c *Client) SignInLink(ctx context.Context, id int64) (out Link, err error) {
	return out, c.call(ctx, http.MethodPost, memberPath(id)+"/link", nil, &out)
}

// Key is an API key or a session of the caller.
type Key struct {
	ID        int64      `json:"id"`
	Kind      string     `json:"kind"` // kind: key, sub-token or session
	Name      string     `json:"name"`
	Current   bool       `json:"current,omitempty"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// NewKey is a new key with its text, which is shown only once.
type NewKey struct {
	Key
	Text string `json:"key"`
}

// Keys returns the caller's keys and sessions, newest first.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	var out struct {
		Items []Key `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, "/v1/me/keys", nil, &out)
}

// CreateKey creates an API key for the caller. With 0 days it does not expire.
func (c *Client) CreateKey(ctx context.Context, name string, days int) (out NewKey, err error) {
	in := map[string]any{"name": name}
	if days > 0 {
		in["expiresInDays"] = days
	}
	return out, c.callWith(ctx, request{method: http.MethodPost, path: "/v1/me/keys", in: in}, &out)
}

// DeleteKey deletes a key or ends a session.
func (c *Client) DeleteKey(ctx context.Context, id int64) error {
	return c.call(ctx, http.MethodDelete, "/v1/me/keys/"+strconv.FormatInt(id, 10), nil, nil)
}

// Settings holds the team's settings by name.
type Settings map[string]any

// Settings returns the team's settings.
func (c *Client) Settings(ctx context.Context) (out Settings, err error) {
	return out, c.call(ctx, http.MethodGet, "/v1/settings", nil, &out)
}

// UpdateSettings changes the given settings.
func (c *Client) UpdateSettings(ctx context.Context, in Settings) (out Settings, err error) {
	return out, c.callWith(ctx, request{method: http.MethodPatch, path: "/v1/settings", in: in}, &out)
}

// UsageRow is the usage of one day, person, repository and model.
type UsageRow struct {
	Day        string `json:"day"`
	UserID     int64  `json:"userId"`
	User       string `json:"user,omitempty"`
	Repository string `json:"repository,omitempty"`
	Model      string `json:"model,omitempty"`
	Runs       int64  `json:"runs"`
	Turns      int64  `json:"turns"`
	Tokens
	Cost
}

// DiskUsage is what uses the server's disk.
type DiskUsage struct {
	QuotaBytes  int64        `json:"quotaBytes"`
	QuotaInodes int64        `json:"quotaInodes"`
	People      []DiskPerson `json:"people"`
	Items       []DiskItem   `json:"items"`
	Held        []Held       `json:"held"`
	Omitted     int          `json:"omitted"`
	Incomplete  bool         `json:"incomplete"`
}

// DiskPerson is the disk usage of a person, or of the server if UserID is 0.
type DiskPerson struct {
	UserID int64  `json:"userId"`
	User   string `json:"user,omitempty"`
	Bytes  int64  `json:"bytes"`
	Inodes int64  `json:"inodes"`
}

// DiskItem is something that uses disk space.
type DiskItem struct {
	Kind       string     `json:"kind"`
	ID         string     `json:"id"`
	AgentID    string     `json:"agentId,omitempty"`
	UserID     int64      `json:"userId"`
	User       string     `json:"user,omitempty"`
	Bytes      int64      `json:"bytes"`
	Inodes     int64      `json:"inodes"`
	MeasuredAt *time.Time `json:"measuredAt,omitempty"`
}

// Held is what an agent or a person has open at the server at the moment.
type Held struct {
	Kind    string `json:"kind"`
	AgentID string `json:"agentId,omitempty"`
	UserID  int64  `json:"userId"`
	User    string `json:"user,omitempty"`
	Count   int    `json:"count"`
	Bytes   int64  `json:"bytes"`
}

// DiskUsage returns what uses the server's disk: the caller's items, or, for
// admins, all items.
func (c *Client) DiskUsage(ctx context.Context) (out DiskUsage, err error) {
	return out, c.call(ctx, http.MethodGet, "/v1/usage/disk", nil, &out)
}

// UsageReport is the usage of a period.
type UsageReport struct {
	From  string     `json:"from"`
	To    string     `json:"to"`
	Items []UsageRow `json:"items"`
}

// UsageReport returns the usage between two days in the format 2006-01-02; ""
// means the server's default.
func (c *Client) UsageReport(ctx context.Context, from, to string) (out UsageReport, err error) {
	q := url.Values{}
	for name, value := range map[string]string{"from": from, "to": to} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return out, c.call(ctx, http.MethodGet, "/v1/usage", q, &out)
}

// AuditEntry is an entry of the audit log of settings.
type AuditEntry struct {
	ID      int64     `json:"id"`
	Time    time.Time `json:"time"`
	UserID  int64     `json:"userId,omitempty"`
	User    string    `json:"user,omitempty"`
	Address string    `json:"address"`
	Action  string    `json:"action"`
	Target  string    `json:"target,omitempty"`
	Outcome string    `json:"outcome"`
}

// Audit returns at most limit entries, newest first. limit is from 1 to 100.
func (c *Client) Audit(ctx context.Context, limit int) ([]AuditEntry, error) {
	var out struct {
		Items []AuditEntry `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, "/v1/audit", url.Values{"limit": {strconv.Itoa(limit)}}, &out)
}
