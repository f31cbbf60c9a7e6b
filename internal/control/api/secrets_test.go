package api

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/account"
	"aloft/internal/control/safe"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// environments gives each agent an environment with the agent's id and owner.
type allEnvironments struct{ h *house }

func (e allEnvironments) MayUse(ctx context.Context, who account.APIKey, id string, _ bool) error {
	if a, err := e.h.store.Agent(ctx, id); err != nil || a.UserID != who.UserID {
		return fault.NotFound("no environment %s", fault.Quoted(id))
	}
	return nil
}

func (h *house) openSafe() {
	h.t.Helper()
	keeper, err := safe.OpenKeeper(h.t.Context(), safe.LocalKeeper, filepath.Join(h.dir, "secrets.key"))
	if err != nil {
		h.t.Fatal(err)
	}
	if h.safe, err = safe.New(safe.Config{Store: h.store, Keepers: []safe.Keeper{keeper}}); err != nil {
		h.t.Fatal(err)
	}
}

// setSecrets gives Ann, the team and the environment a secret with that name.
func (h *house) setSecrets(environment, name string) {
	h.t.Helper()
	for _, owner := range []secret.Owner{{Kind: secret.OfPerson, ID: "1"}, secret.TheTeam, {Kind: secret.OfEnvironment, ID: environment}} {
		if _, err := h.safe.Put(h.t.Context(), secret.Secret{Name: name, Type: secret.Runtime, Owner: owner}, "a value"); err != nil {
			h.t.Fatal(err)
		}
	}
}

const secretValue = "glpat-a-value-that-nobody-may-see"

func body(rest string) string { return fmt.Sprintf(`{"value":%q%s}`, secretValue, rest) }

func TestSecretsOverREST(t *testing.T) {
	h := newHouse(t)
	env, _ := h.begin()
	put := h.want(h.call("PUT", "/v1/secrets/TOKEN", body(`,"repos":["https://GitHub.com/o/r.git"]`)), 200)
	if id := put.text(t, "id"); !strings.HasPrefix(id, "secv_") || put.text(t, "owner") != "personal" || put.text(t, "type") != "runtime_secret" {
		t.Errorf("%s", put.body)
	}
	if got := fmt.Sprint(put.get(t, "repos")); got != "[github.com/o/r]" {
		t.Error(got)
	}
	h.want(h.call("PUT", "/v1/team/secrets/TOKEN", body(`,"type":"build_secret"`)), 200)
	of := h.want(h.call("PUT", "/v1/environments/"+env+"/secrets/TOKEN", body(`,"type":"environment_variable"`)), 200)
	if of.text(t, "environmentId") != env || of.text(t, "owner") != "environment" {
		t.Errorf("%s", of.body)
	}
	names := func(a answer) (owners []string) {
		for _, item := range a.get(t, "items").([]any) {
			owners = append(owners, item.(map[string]any)["owner"].(string))
		}
		return owners
	}
	if got := names(h.want(h.call("GET", "/v1/secrets", ""), 200)); fmt.Sprint(got) != "[team personal]" && fmt.Sprint(got) != "[personal team]" {
		t.Error(got)
	}
	all := h.want(h.call("GET", "/v1/secrets?environmentId="+env, ""), 200)
	if got := names(all); len(got) != 3 {
		t.Error(got)
	}
	if got := names(h.want(h.callAs(bensKey, "GET", "/v1/secrets", ""), 200)); fmt.Sprint(got) != "[team]" {
		t.Errorf("ben sees %v", got)
	}
	h.want(h.callAs(bensKey, "GET", "/v1/secrets?environmentId="+env, ""), 404)
	first := h.want(h.call("GET", "/v1/secrets?limit=1", ""), 200)
	second := h.want(h.call("GET", "/v1/secrets?limit=1&cursor="+first.text(t, "nextCursor"), ""), 200)
	if got := append(names(first), names(second)...); len(got) != 2 || got[0] == got[1] {
		t.Errorf("in two pages: %v", got)
	}
	h.want(h.call("DELETE", "/v1/secrets/token", ""), 200)
	h.want(h.call("DELETE", "/v1/secrets/TOKEN", ""), 404)
	if got := names(h.want(h.call("GET", "/v1/secrets", ""), 200)); fmt.Sprint(got) != "[team]" {
		t.Error(got)
	}
	if n := h.want(h.call("POST", "/v1/team/secrets-rotation", ""), 200).get(t, "count"); n != 2.0 {
		t.Errorf("%v were sealed anew", n)
	}
	id := h.want(h.call("GET", "/v1/team/external-id", ""), 200).text(t, "externalId")
	if again := h.want(h.callAs(bensKey, "GET", "/v1/team/external-id", ""), 200).text(t, "externalId"); again != id || len(id) < 32 {
		t.Errorf("external ids %q and %q", id, again)
	}
}

func TestSecretsThatAreRefused(t *testing.T) {
	h := newHouse(t)
	h.want(h.call("PUT", "/v1/secrets/Token", body("")), 200)
	for _, tt := range []struct{ path, body, code, at string }{
		{"/v1/secrets/TOKEN", body(""), "secret_name_conflict", "name"},
		{"/v1/secrets/https_proxy", body(""), "name_reserved", "name"},
		{"/v1/secrets/A%20B", body(""), "validation_error", "name"},
		{"/v1/secrets/A", `{}`, "validation_error", "value"},
		{"/v1/secrets/A", `{"value":""}`, "validation_error", "value"},
		{"/v1/secrets/A", `{"value":["` + secretValue + `"]}`, "validation_error", "value"},
		{"/v1/secrets/A", body(`,"type":"password"`), "validation_error", "type"},
		{"/v1/secrets/A", body(`,"repos":["r"]`), "validation_error", "repos"},
		{"/v1/secrets/CURSOR_AWS_ASSUME_IAM_ROLE_ARN", body(""), "validation_error", "value"},
	} {
		a := h.call("PUT", tt.path, tt.body)
		text := a.text(t, "error.message")
		if a.status < 400 || a.status >= 500 || a.text(t, "error.code") != tt.code || !strings.Contains(text, tt.at) {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, a.status, a.body)
		}
		if strings.Contains(string(a.body), secretValue) {
			t.Errorf("%s: the error tells the value", tt.path)
		}
	}
	if short := h.want(h.call("PUT", "/v1/secrets/PIN", `{"value":"1234"}`), 200).text(t, "warning"); !strings.Contains(short, "8 bytes") {
		t.Errorf("a short value's warning: %q", short)
	}
	if log := h.log.String(); strings.Contains(log, secretValue) {
		t.Error("the log holds a value")
	}
}

func TestEnvVarsAreSealedAndGoWithTheAgent(t *testing.T) {
	h := newHouse(t)
	a := h.want(h.call("POST", "/v1/agents", prompt(fmt.Sprintf(`"envVars":{"A_TOKEN":%q}`, secretValue)), "Idempotency-Key", "k"), 201)
	id := a.text(t, "agent.id")
	h.want(h.call("POST", "/v1/agents", prompt(fmt.Sprintf(`"envVars":{"A_TOKEN":%q}`, secretValue)), "Idempotency-Key", "k"), 201)
	found, err := h.store.Agent(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := h.safe.ForAgent(t.Context(), found)
	if err != nil || set.Vars["A_TOKEN"] != secretValue || len(set.Hidden) != 1 {
		t.Errorf("the agent gets %v, %v", set.Hidden, err)
	}
	events := h.want(h.call("GET", "/v1/agents/"+id+"/events", ""), 200)
	if strings.Contains(string(a.body)+string(events.body)+h.log.String(), secretValue) {
		t.Error("the reply, the journal or the log holds the value")
	}
	for _, file := range []string{"aloft.db", "aloft.db-wal"} {
		data, err := os.ReadFile(filepath.Join(h.dir, file))
		if err != nil || bytes.Contains(data, []byte(secretValue)) {
			t.Errorf("%s holds the value, or %v", file, err)
		}
	}
	h.want(h.call("DELETE", "/v1/agents/"+id, ""), 200)
	left, err := h.store.Secrets(t.Context(), secret.Owner{Kind: secret.OfAgent, ID: id})
	if err != nil || len(left) != 0 {
		t.Errorf("after its end %d are left, %v", len(left), err)
	}
}
