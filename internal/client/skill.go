package client

import (
	"context"
	"net/http"
	"time"
)

// SkillVersion is a version of the team's skills.
type SkillVersion struct {
	UserID    int64     `json:"userId"` // who published it
	CreatedAt time.Time `json:"createdAt"`
	Current   bool      `json:"current"`
	Text      string    `json:"text"`
}

// SkillVersions returns the versions of the team's skills, newest first.
func (c *Client) SkillVersions(ctx context.Context) ([]SkillVersion, error) {
	var out struct {
		Items []SkillVersion `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, "/v1/team/skills/versions", nil, &out)
}

// PublishSkills publishes the draft of the team's skills if its text is still the given
// one.
func (c *Client) PublishSkills(ctx context.Context, text string) (out Rule, err error) {
	in := map[string]string{"text": text}
	return out, c.callWith(ctx, request{method: http.MethodPost, path: "/v1/team/skills/publish", in: in}, &out)
}
