package inbound

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/store"
)

// example is one of GitHub's published events. GitHub's own library has signed
// it with the secret [everybody].
type example struct{ Kind, Body, Signature string }

const everybody = "It's a Secret to Everybody"

func examples(t testing.TB) (all []example) {
	t.Helper()
	f, err := os.Open("testdata/github.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func headers(pairs ...string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// Every event that GitHub publishes is accepted with a signature of GitHub's
// own library, and refused with another body. It either names a pull request, a
// branch or a commit, or is ignored with a reason.
func TestGitHubExamples(t *testing.T) {
	acts := map[string]int{}
	kinds := map[string]bool{}
	for _, e := range examples(t) {
		kinds[e.Kind] = true
		h := headers("X-Hub-Signature-256", e.Signature)
		if err := github.verify(everybody, h, []byte(e.Body), time.Now()); err != nil {
			t.Errorf("%s: %v", e.Kind, err)
		}
		if github.verify(everybody, h, []byte(e.Body+" "), time.Now()) == nil {
			t.Errorf("%s: another body has the same signature", e.Kind)
		}
		p, err := parseGitHub(e.Kind, []byte(e.Body))
		if why, ok := errors.AsType[Ignored](err); ok {
			if why == "" {
				t.Errorf("%s is ignored without a reason", e.Kind)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", e.Kind, err)
			continue
		}
		if acts[e.Kind]++; p.repo == "" || p.Kind == "" || p.Number == 0 && p.Branch == "" && p.Commit == "" {
			t.Errorf("%s: %+v", e.Kind, p)
		}
	}
	if len(kinds) != 58 {
		t.Errorf("%d kinds", len(kinds))
	}
	for _, kind := range []string{"check_run", "check_suite", "issue_comment", "issues", "pull_request", "pull_request_review", "pull_request_review_comment", "status", "workflow_job", "workflow_run"} {
		if acts[kind] == 0 {
			t.Errorf("no %s is acted on", kind)
		}
		delete(acts, kind)
	}
	if delete(acts, "pull_request_review_thread"); len(acts) > 0 {
		t.Errorf("acted on: %v", acts)
	}
}

func TestParse(t *testing.T) {
	const repo = `"repository":{"full_name":"acme/widget"},"sender":{"login":"ada","type":"User"}`
	const project = `"user":{"username":"ada"},"project":{"path_with_namespace":"acme/sub/widget"}`
	for _, tt := range []struct {
		name, source, kind, body string
		want                     Change
		ignored                  string
	}{
		{"a comment on a pull request", "github", "issue_comment", `{"action":"created","issue":{"number":7,"pull_request":{"url":"x"}},"comment":{"id":5},` + repo + `}`,
			Change{Number: 7, Kind: Comment, CommentID: "5", Actor: "ada"}, ""},
		{"a comment on an issue", "github", "issue_comment", `{"action":"created","issue":{"number":7},"comment":{"id":5,"body":"@aloft do it"},` + repo + `}`,
			Change{Number: 7, OnIssue: true, Kind: Comment, CommentID: "5", Actor: "ada", Text: "@aloft do it"}, ""},
		{"an issue", "github", "issues", `{"action":"opened","issue":{"number":7,"body":"@aloft do it"},` + repo + `}`, Change{Number: 7, OnIssue: true, Kind: Issue, Actor: "ada", Text: "@aloft do it"}, ""},
		{"a closed issue", "github", "issues", `{"action":"closed","issue":{"number":7,"body":"@aloft do it"},` + repo + `}`, Change{}, "was closed"},
		{"a deleted comment", "github", "issue_comment", `{"action":"deleted","issue":{"number":7,"pull_request":{}},"comment":{"id":5},` + repo + `}`, Change{}, "deleted"},
		{"a bot's comment", "github", "issue_comment", `{"action":"created","issue":{"number":7,"pull_request":{}},"comment":{"id":5},"repository":{"full_name":"acme/widget"},"sender":{"login":"renovate[bot]","type":"Bot"}}`,
			Change{Number: 7, Kind: Comment, CommentID: "5", Actor: "renovate[bot]", Bot: true}, ""},
		{"a check", "github", "check_run", `{"action":"completed","check_run":{"name":"test","status":"completed","head_sha":"abc","pull_requests":[{"number":7}],"check_suite":{"head_branch":"fix"}},` + repo + `}`,
			Change{Number: 7, Kind: Check, Commit: "abc", Branch: "fix", Check: "test"}, ""},
		{"a check that runs", "github", "check_run", `{"action":"created","check_run":{"name":"test","status":"queued","head_sha":"abc"},` + repo + `}`, Change{}, "has not ended"},
		{"an event of another kind", "github", "star", `{"action":"created",` + repo + `}`, Change{}, "are ignored"},

		{"a comment at Gitea", "gitea", "issue_comment", `{"action":"created","is_pull":true,"issue":{"number":7,"pull_request":null},"comment":{"id":5},` + repo + `}`,
			Change{Number: 7, Kind: Comment, CommentID: "5", Actor: "ada"}, ""},
		{"a review at Gitea", "gitea", "pull_request_rejected", `{"action":"reviewed","pull_request":{"number":7,"head":{"ref":"fix","sha":"abc"}},"review":{"type":"pull_request_review_rejected","content":"no"},` + repo + `}`,
			Change{Number: 7, Kind: Comment, Actor: "ada", Text: "no"}, ""},
		{"a status at Gitea", "gitea", "status", `{"sha":"abc","context":"ci","state":"failure",` + repo + `}`, Change{Commit: "abc", Kind: Check, Check: "ci"}, ""},
		{"a job at Gitea", "gitea", "workflow_job", `{"action":"completed","workflow_job":{"name":"test","head_sha":"abc","head_branch":"fix","status":"completed"},` + repo + `}`,
			Change{Commit: "abc", Branch: "fix", Kind: Check, Check: "test"}, ""},
		{"a comment on an issue at Gitea", "gitea", "issue_comment", `{"action":"created","is_pull":false,"issue":{"number":7,"pull_request":null},"comment":{"id":5,"body":"x"},` + repo + `}`,
			Change{Number: 7, OnIssue: true, Kind: Comment, CommentID: "5", Actor: "ada", Text: "x"}, ""},
		{"an issue at Gitea", "gitea", "issues", `{"action":"opened","issue":{"number":7,"body":"@aloft do it"},` + repo + `}`, Change{Number: 7, OnIssue: true, Kind: Issue, Actor: "ada", Text: "@aloft do it"}, ""},

		{"a note", "gitlab", "Note Hook", `{"object_kind":"note",` + project + `,"object_attributes":{"id":1244,"noteable_type":"MergeRequest","system":false},"merge_request":{"id":7,"iid":3}}`,
			Change{Repo: repoOf("acme/sub/widget"), Number: 3, Kind: Comment, CommentID: "1244", Actor: "ada"}, ""},
		{"a note on a commit", "gitlab", "Note Hook", `{"object_kind":"note",` + project + `,"object_attributes":{"id":1243,"noteable_type":"Commit"}}`, Change{}, "not on an issue or a merge request"},
		{"a note on an issue", "gitlab", "Note Hook", `{"object_kind":"note",` + project + `,"object_attributes":{"id":1244,"noteable_type":"Issue","system":false,"note":"@aloft"},"issue":{"id":7,"iid":3}}`,
			Change{Repo: repoOf("acme/sub/widget"), Number: 3, OnIssue: true, Kind: Comment, CommentID: "1244", Actor: "ada", Text: "@aloft"}, ""},
		{"an issue at GitLab", "gitlab", "Issue Hook", `{"object_kind":"issue",` + project + `,"object_attributes":{"id":1,"iid":3,"action":"open","description":"@aloft"}}`,
			Change{Repo: repoOf("acme/sub/widget"), Number: 3, OnIssue: true, Kind: Issue, Actor: "ada", Text: "@aloft"}, ""},
		{"a closed issue at GitLab", "gitlab", "Issue Hook", `{"object_kind":"issue",` + project + `,"object_attributes":{"id":1,"iid":3,"action":"close","description":"@aloft"}}`, Change{}, "has not changed"},
		{"GitLab's own note", "gitlab", "Note Hook", `{"object_kind":"note",` + project + `,"object_attributes":{"id":1,"noteable_type":"MergeRequest","system":true},"merge_request":{"iid":3}}`, Change{}, "GitLab itself"},
		{"a pipeline", "gitlab", "Pipeline Hook", `{"object_kind":"pipeline",` + project + `,"object_attributes":{"id":31,"ref":"fix","sha":"abc","status":"failed"},"merge_request":{"iid":3}}`,
			Change{Repo: repoOf("acme/sub/widget"), Number: 3, Branch: "fix", Commit: "abc", Kind: Check}, ""},
		{"a pipeline of a merge request", "gitlab", "Job Hook", `{"object_kind":"build","ref":"refs/merge-requests/3/head","sha":"abc","build_name":"test","build_status":"failed",` + project + `}`,
			Change{Repo: repoOf("acme/sub/widget"), Number: 3, Commit: "abc", Kind: Check, Check: "test"}, ""},
		{"a pipeline that runs", "gitlab", "Pipeline Hook", `{"object_kind":"pipeline",` + project + `,"object_attributes":{"ref":"fix","sha":"abc","status":"running"}}`, Change{}, "has not ended"},

		{"a generic event", "generic", "change", `{"repository":"acme/widget","pullRequest":7}`, Change{Number: 7, Kind: Check}, ""},
		{"a generic event about nothing", "generic", "change", `{"repository":"acme/widget"}`, Change{}, "names no pull request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := NewInbox(Config{Connections: []Connection{{Name: "acme", Source: tt.source, Host: "git.example.com"}}})
			got, err := i.parse(stored(tt.source, tt.kind, tt.body))
			if why, ok := errors.AsType[Ignored](err); ok && tt.ignored != "" && strings.Contains(string(why), tt.ignored) {
				return
			}
			if tt.want.Repo.IsZero() {
				tt.want.Repo = repoOf("acme/widget")
			}
			if err != nil || tt.ignored != "" || got != tt.want {
				t.Errorf("got %+v, %v; want %+v, ignored %q", got, err, tt.want, tt.ignored)
			}
		})
	}
}

// The JavaScript library standardwebhooks 1.1.1 has computed these values.
// An event of 3 MiB must not decode to hundreds of MiB.
func TestEventOfManyValues(t *testing.T) {
	i := NewInbox(Config{Connections: []Connection{{Source: "github", Name: "x", Host: "github.com"}}})
	_, err := i.parse(store.InboundEvent{Source: "github", Connection: "x", Kind: "push", Body: []byte(`{"commits":[` + strings.Repeat("{},", 1<<20) + "{}]}")})
	if err == nil || !strings.Contains(err.Error(), "JSON values") {
		t.Errorf("error is %v", err)
	}
}

func TestStandardWebhooks(t *testing.T) {
	const secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"repository":"acme/widget","pullRequest":7}`
	const good = "v1,m4KU9LkElyInqedg8MYjeGYrKcnT0gSJNpHVwmLini8="
	at := time.Unix(1614265330, 0)
	h := headers("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp", "1614265330", "webhook-signature", good)
	with := func(name, value string) http.Header {
		h := h.Clone()
		h.Set(name, value)
		return h
	}
	for _, tt := range []struct {
		name string
		h    http.Header
		now  time.Time
		want error
	}{
		{"as signed", h, at, nil},
		{"among others", with("webhook-signature", "v1a,AAAA v1,AAAA "+good), at, nil},
		{"five minutes later", h, at.Add(window), nil},
		{"too late", h, at.Add(window + time.Second), errTime},
		{"too early", h, at.Add(-window - time.Second), errTime},
		{"of another version", with("webhook-signature", "v2"+good[2:]), at, errWrong},
		{"of another id", with("webhook-id", "msg_other"), at, errWrong},
		{"of another time", with("webhook-timestamp", "1614265331"), at, errWrong},
		{"without a signature", with("webhook-signature", ""), at, errUnsigned},
		{"without an id", with("webhook-id", ""), at, errUnsigned},
		{"beyond the bound", with("webhook-signature", strings.Repeat("v1,AAAA ", maxSignatures)+good), at, errWrong},
	} {
		if err := standard(secret, tt.h, []byte(body), tt.now); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if err := standard(secret, h, []byte(body+" "), at); !errors.Is(err, errWrong) {
		t.Errorf("another body: %v", err)
	}
}

func TestSignatures(t *testing.T) {
	body := []byte(`{}`)
	for _, tt := range []struct {
		name, source, secret string
		h                    http.Header
		want                 error
	}{
		{"GitLab's token", "gitlab", "a-long-secret-token", headers("X-Gitlab-Token", "a-long-secret-token"), nil},
		{"another token", "gitlab", "a-long-secret-token", headers("X-Gitlab-Token", "a-long-secret-tokex"), errWrong},
		{"a longer token", "gitlab", "a-long-secret-token", headers("X-Gitlab-Token", "a-long-secret-token2"), errWrong},
		{"no token", "gitlab", "a-long-secret-token", headers(), errUnsigned},
		{"a signing token sent as it is", "gitlab", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", headers("X-Gitlab-Token", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), errUnsigned},
		// printf '{}' | openssl dgst -sha256 -hmac a-long-secret-token
		{"Gitea's signature", "gitea", "a-long-secret-token", headers("X-Gitea-Signature", "c2f7d7f8fc94b08a2e266bf1ec7f5841b905e2fd83327b5f6fbfe2fa0d6c1e51"), nil},
		{"Forgejo's signature", "gitea", "a-long-secret-token", headers("X-Forgejo-Signature", "c2f7d7f8fc94b08a2e266bf1ec7f5841b905e2fd83327b5f6fbfe2fa0d6c1e51"), nil},
		{"a signature with a prefix", "gitea", "a-long-secret-token", headers("X-Gitea-Signature", "sha256=c2f7d7f8fc94b08a2e266bf1ec7f5841b905e2fd83327b5f6fbfe2fa0d6c1e51"), errWrong},
		{"a short signature", "gitea", "a-long-secret-token", headers("X-Gitea-Signature", "c2f7"), errWrong},
		{"GitHub without a prefix", "github", "a-long-secret-token", headers("X-Hub-Signature-256", "c2f7d7f8fc94b08a2e266bf1ec7f5841b905e2fd83327b5f6fbfe2fa0d6c1e51"), errWrong},
		{"GitHub's old signature", "github", "a-long-secret-token", headers("X-Hub-Signature", "sha1=00"), errUnsigned},
	} {
		if err := sources[tt.source].verify(tt.secret, tt.h, body, time.Now()); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// A delivery that GitLab repeats has the same id. Two events with the same
// cause have different ids.
func TestGitLabDelivery(t *testing.T) {
	id := func(body string, pairs ...string) string {
		out, _ := gitlab.id(headers(pairs...), []byte(body))
		return out
	}
	if id("a", "webhook-id", "1", "Idempotency-Key", "2") != "1" || id("a", "Idempotency-Key", "2", "X-Gitlab-Event-UUID", "3") != "2" {
		t.Error("the most specific header does not count")
	}
	for _, pairs := range [][]string{{"X-Gitlab-Event-UUID", "3"}, nil} {
		first, again, other := id("a", pairs...), id("a", pairs...), id("b", pairs...)
		if first != again || first == other {
			t.Errorf("%v: %s, repeated %s, of another body %s", pairs, first, again, other)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, e := range examples(f) {
		if len(e.Body) < 8000 {
			f.Add("github", e.Kind, []byte(e.Body))
		}
	}
	f.Add("gitlab", "", []byte(`{"object_kind":"note","object_attributes":{"id":1,"noteable_type":"MergeRequest"},"merge_request":{"iid":3}}`))
	f.Add("gitea", "issue_comment", []byte(`{"is_pull":true,"issue":{"number":7},"comment":{"id":5}}`))
	f.Add("generic", "", []byte(`{"repository":"../x","pullRequest":-7}`))
	f.Fuzz(func(t *testing.T, source, kind string, body []byte) {
		if _, ok := sources[source]; !ok {
			return
		}
		i := NewInbox(Config{Connections: []Connection{{Name: "acme", Source: source, Host: "git.example.com"}}})
		c, err := i.parse(stored(source, kind, string(body)))
		if err != nil {
			return
		}
		if c.Repo.Host != "git.example.com" || c.Number < 0 || c.Number == 0 && c.Branch == "" && c.Commit == "" || len(c.Actor) > 400 || strings.Contains(c.Branch, "\n") {
			t.Errorf("%+v", c)
		}
	})
}

func FuzzSignature(f *testing.F) {
	f.Add("sha256=00", "", "", "", []byte("{}"))
	f.Add("", "msg_1", "1614265330", "v1,AA== v1,", []byte("{}"))
	f.Fuzz(func(t *testing.T, signature, id, at, standard string, body []byte) {
		h := http.Header{"X-Hub-Signature-256": {signature}, "X-Gitea-Signature": {signature}, "X-Gitlab-Token": {signature}, "Webhook-Id": {id}, "Webhook-Timestamp": {at}, "Webhook-Signature": {standard}}
		for name, s := range sources {
			if err := s.verify("a secret that nobody can guess: 8c1f0a", h, body, time.Now()); err == nil {
				t.Errorf("%s accepts %v", name, h)
			}
		}
	})
}
