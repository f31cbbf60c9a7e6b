package api

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestTeamSkills has an admin draft, try and publish skills of the team, and then return
// to an earlier version.
func TestTeamSkills(t *testing.T) {
	h := newHouse(t)
	skill := func(text string) string {
		return "---\nname: release\ndescription: How to release\n---\n" + text + "\n"
	}
	body := func(text string) string { return `{"text":` + strconv.Quote(text) + `}` }
	versions := func() string {
		var all []string
		for _, item := range h.want(h.callAs(viewersKey, "GET", "/v1/team/skills/versions", ""), 200).get(t, "items").([]any) {
			v := item.(map[string]any)
			lines := strings.Split(strings.TrimSpace(v["text"].(string)), "\n")
			all = append(all, fmt.Sprintf("%s by %v %v", lines[len(lines)-1], v["userId"], v["current"]))
		}
		return strings.Join(all, ", ")
	}
	const draft, current, publish = "/v1/rules/team/skills-draft.md", "/v1/rules/team/skills.md", "/v1/team/skills/publish"

	h.want(h.call("PUT", current, body(skill("one"))), 200)
	h.want(h.call("PUT", current, body(skill("one"))), 200) // no new version
	h.want(h.callAs(bensKey, "PUT", draft, body(skill("two"))), 403)
	h.want(h.call("PUT", draft, body("no skill")), 400)
	h.want(h.call("PUT", "/v1/rules/me/skills-draft.md", body(skill("two"))), 404)
	if a := h.want(h.call("POST", publish, body(skill("two"))), 409); a.text(t, "error.code") != "no_draft" {
		t.Errorf("published without a draft: %s", a.body)
	}
	h.want(h.call("PUT", draft, body(skill("two"))), 200)
	if got := h.want(h.call("GET", current, ""), 200); got.text(t, "text") != skill("one") {
		t.Errorf("the draft is published at once: %s", got.body)
	}
	if a := h.want(h.call("POST", publish, body(skill("tried another"))), 409); a.text(t, "error.code") != "draft_changed" {
		t.Errorf("published a draft that nobody tried: %s", a.body)
	}
	h.want(h.callAs(bensKey, "POST", publish, body(skill("two"))), 403)
	h.want(h.call("POST", publish, body(skill("two"))), 200)
	if got := h.want(h.call("GET", current, ""), 200); got.text(t, "text") != skill("two") {
		t.Errorf("published: %s", got.body)
	}
	if got := h.want(h.call("GET", draft, ""), 200); got.text(t, "text") != "" {
		t.Errorf("the draft remains: %s", got.body)
	}
	if got, want := versions(), "two by 1 true, one by 1 false"; got != want {
		t.Errorf("versions %s, want %s", got, want)
	}
	h.want(h.call("PUT", current, body(skill("one"))), 200)
	h.want(h.call("PUT", current, body("")), 200)
	if got, want := versions(), " by 1 true, one by 1 false, two by 1 false, one by 1 false"; got != want {
		t.Errorf("versions %q, want %q", got, want)
	}
}
