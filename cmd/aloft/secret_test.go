package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func TestSecretCommands(t *testing.T) {
	var asked string
	var put client.NewSecret
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, put = r.Method+" "+r.URL.RequestURI(), client.NewSecret{}
		switch r.Method {
		case http.MethodPut:
			if err := json.NewDecoder(r.Body).Decode(&put); err != nil {
				t.Error(err)
			}
			_ = json.NewEncoder(w).Encode(client.Secret{Name: "TOKEN", Owner: "team", Type: put.Type, Warning: "too short"})
		case http.MethodPost:
			_, _ = w.Write([]byte(`{"count":3}`))
		default:
			_, _ = w.Write([]byte(`{"id":"TOKEN","externalId":"aloft-1","items":[{"name":"TOKEN","owner":"personal","type":"runtime_secret","repos":[]}]}`))
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(file, []byte("two\nlines\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args, stdin string
		exit        int
		asked       string // the request; "" if the command is rejected without one
		value       string
		says        string
	}{
		{"set TOKEN", "piped-value\n", cli.OK, "PUT /v1/secrets/TOKEN", "piped-value", "Set TOKEN (team, runtime_secret).\nwarning: too short\n"},
		{"set --team --type build_secret TOKEN", "v\r\n", cli.OK, "PUT /v1/team/secrets/TOKEN", "v", "build_secret"},
		{"set --env env-1 TOKEN --file " + file, "", cli.OK, "PUT /v1/environments/env-1/secrets/TOKEN", "two\nlines", "Set"},
		{"set TOKEN", "\n", cli.Usage, "", "", "missing value"},
		{"set TOKEN value", "", cli.Usage, "", "", "accepts 1 arg"},
		{"set HTTP_PROXY", "v", 1, "", "", "reserved"},
		{"set --team --env e TOKEN", "v", cli.Usage, "", "", "team"},
		{"delete --team TOKEN", "", cli.OK, "DELETE /v1/team/secrets/TOKEN", "", "Deleted TOKEN"},
		{"list --env e", "", cli.OK, "GET /v1/secrets?environmentId=e&limit=100", "", "TOKEN"},
		{"rotate", "", cli.OK, "POST /v1/team/secrets-rotation", "", "3 secrets"},
		{"external-id", "", cli.OK, "GET /v1/team/external-id", "", "aloft-1"},
	} {
		asked, put = "", client.NewSecret{}
		env := func(name string) string {
			return map[string]string{"ALOFT_URL": server.URL, "ALOFT_API_KEY": "aloft_test", "HOME": t.TempDir()}[name]
		}
		var out bytes.Buffer
		exit := run(t.Context(), append([]string{"secret"}, strings.Fields(tt.args)...), env, strings.NewReader(tt.stdin), &out, &out)
		if exit != tt.exit && (tt.exit == cli.OK || exit == cli.OK) || asked != tt.asked || put.Value != tt.value || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: exit %d, asked %q with %q:\n%s", tt.args, exit, asked, put.Value, out.String())
		}
	}
}
