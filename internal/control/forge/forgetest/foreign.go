package forgetest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// answers is a transport that returns the same response to every request.
type answers struct {
	status int
	body   string
}

// RoundTrip implements [http.RoundTripper].
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// FuzzAnswers feeds arbitrary responses to a forge. For every response, the
// results must be limited in size and plain, and errors must not be internal
// errors.
func FuzzAnswers(f *testing.F, with func(client *http.Client) forge.Forge) {
	for _, seed := range []string{"", "null", "[null]", "{}", `[{"number":1,"iid":1,"title":"Draft: \u0000x\u202e","html_url":"javascript:x","web_url":"//x","state":"opened",
		"head":{"ref":"b","label":"b","sha":"zz","repo":{"full_name":"../.."}},"base":null,"user":null,"source_branch":"b","source_project_id":1}]`,
		`{"message":{"a":["b"]},"errors":["x",{"field":"head","code":"invalid"},3]}`, `{"statuses":[{"context":"\n","state":"odd"}],"check_runs":[{}],"total_count":-1}`,
		`{"title":"WIP:","merged":true,"number":1e3,"head":{"sha":"0000000000000000000000000000000000000000"}}`, `{"message":"t0ken/of+the=test"}`,
		`[{"id":"\u202ex","state":"APPROVED","notes":[{"position":{"new_line":-1}},{"resolvable":true}],"comments_count":1,"body":"b"}]`,
		`{"data":{"node":null,"repository":{"pullRequest":{"reviewThreads":{"pageInfo":{"hasPreviousPage":true},"nodes":[{"id":"\n","comments":{"nodes":[{"author":null}]}}]}}}},"errors":[]}`,
		`{"errors":[{"type":"NOT_FOUND","message":"t0ken/of+the=test"}],"permission":"write","output":{"summary":"\u001b[1m"},"run_id":1}`} {
		f.Add(200, seed)
		f.Add(422, seed)
	}
	r := forge.Repo{Host: "forge.test", Path: "acme/widget"}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			return
		}
		host := with(&http.Client{Transport: answers{status, body}})
		sane := func(err error, pulls ...forge.PullRequest) {
			t.Helper()
			if err != nil && (fault.Is(err, fault.KindInternal) || strings.Contains(err.Error(), Token) || !utf8.ValidString(err.Error())) {
				t.Errorf("%v", err)
			}
			for _, p := range pulls {
				plain(t, p.Title, p.Author, p.Head, p.Base, p.HeadRepo.Path)
				if err == nil && (p.URL != "" && !strings.HasPrefix(p.URL, "http") || len(p.HeadCommit)%8 != 0 || len(p.Body) > forge.MaxBody || !utf8.ValidString(p.Body)) {
					t.Errorf("%+v", p)
				}
			}
		}
		p, err := host.Get(t.Context(), r, 1)
		sane(err, p)
		p, err = host.Open(t.Context(), newPull(r, "b", "main"))
		sane(err, p)
		all, err := host.Find(t.Context(), r, "b")
		sane(err, all...)
		checks, err := host.Checks(t.Context(), r, strings.Repeat("0", 40))
		sane(err)
		for _, c := range checks {
			plain(t, c.Name, c.Summary)
		}
		said, err := host.(forge.Discussion).Comments(t.Context(), r, 1)
		sane(err)
		for _, c := range said {
			plain(t, c.Author, c.Path)
		}
		sane(host.(forge.Reviewing).RequestReview(t.Context(), r, 1, []string{"ada"}))
		_, err = host.DefaultBranch(t.Context(), r)
		sane(err)
		threads, err := host.(forge.Reviewed).Threads(t.Context(), r, 1)
		sane(err)
		for _, v := range threads {
			plain(t, v.ID, v.Path, v.Comments[0].Author, v.Comments[0].Path)
		}
		found, err := host.(forge.Reviewed).Reviews(t.Context(), r, 1)
		sane(err)
		for _, v := range found {
			plain(t, v.ID, v.Author, v.Commit, v.URL)
		}
		_, err = host.(forge.Reviewed).Reply(t.Context(), r, 1, "1", "x")
		sane(err)
		sane(host.(forge.Reviewed).Resolve(t.Context(), r, 1, "1"))
		_, err = host.(forge.Access).MayWrite(t.Context(), r, "ada")
		sane(err)
		for _, id := range []string{"", "1", "job-1", "run-1", "1-1"} {
			_, err = host.(forge.Logged).Log(t.Context(), r, forge.Check{Name: "x", LogID: id})
			sane(err)
		}
	})
}

// plain fails the test unless each text is a single line of plain text.
func plain(t *testing.T, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) || len(s) > 2048 {
			t.Errorf("%q is not plain", s)
		}
	}
}
