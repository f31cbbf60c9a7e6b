package forgetest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// Answer is a host's response to one request.
type Answer struct {
	Status int
	Header map[string]string
	Body   string
}

func (a Answer) handle(w http.ResponseWriter, _ *http.Request) {
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write([]byte(a.Body))
}

// refused checks every kind of unsuccessful or malformed response. Each must
// lead to the right error code and a hint, and no error may contain a token.
func refused(t *testing.T, s *Server, h Host) {
	const page = "<!doctype html><title>Sign in</title>"
	for name, c := range map[string]struct {
		Answer
		code, hint string
	}{
		"401":             {Answer{401, nil, `{"message": "Bad credentials ` + Token + `"}`}, forge.CodeUnauthorized, "create a new one"},
		"403":             {Answer{403, nil, `{"message": "no ` + Token + `"}`}, forge.CodeDenied, "needs to write pull requests"},
		"403, a limit":    {Answer{403, map[string]string{"X-RateLimit-Remaining": "0"}, ""}, forge.CodeRateLimited, "retried automatically"},
		"404":             {Answer{404, nil, page}, forge.CodeNotFound, "token reaches the repository"},
		"409":             {Answer{409, nil, `{"message": "it exists"}`}, forge.CodeConflict, "resolve it there"},
		"422":             {Answer{422, nil, `{"message": "Validation Failed"}`}, forge.CodeRefused, "change what it names"},
		"429":             {Answer{429, map[string]string{"Retry-After": "7"}, page}, forge.CodeRateLimited, "retried automatically"},
		"500":             {Answer{500, nil, page}, forge.CodeUnreachable, "retried automatically"},
		"503":             {Answer{503, map[string]string{"Retry-After": "7"}, ""}, forge.CodeUnreachable, "retried automatically"},
		"garbage":         {Answer{200, nil, `{"number": `}, forge.CodeUnreachable, "in its entry of git.credentials"},
		"another's JSON":  {Answer{200, nil, `[[1], "x"]`}, forge.CodeUnreachable, "in its entry of git.credentials"},
		"a page":          {Answer{200, map[string]string{"Content-Type": "text/html"}, page}, forge.CodeUnreachable, "in its entry of git.credentials"},
		"moved elsewhere": {Answer{302, map[string]string{"Location": "https://elsewhere.test/api"}, ""}, forge.CodeConflict, "configure the address that"},
		"no host":         {Answer{301, map[string]string{"Location": "ftp://elsewhere.test/"}, ""}, forge.CodeConflict, "configure the address that"},
	} {
		for what, ask := range map[string]func() error{
			"Get":  func() error { _, err := h.Forge.Get(t.Context(), h.Repo, 1); return err },
			"Open": func() error { _, err := h.Forge.Open(t.Context(), newPull(h.Repo, "b", "main")); return err },
		} {
			s.Next(c.handle)
			err := ask()
			f := fault.Of(err)
			if err == nil || f.Code != c.code || !strings.Contains(f.Advice, c.hint) || strings.Contains(err.Error(), Token) {
				t.Errorf("%s, %s: %q, %v; want %s, and the hint %q", name, what, f.Code, err, c.code, c.hint)
			}
		}
	}
	if all := s.Fake.PullRequests(h.Repo); len(all) != 0 {
		t.Errorf("opened all the same: %+v", all)
	}
}

// An Examination is a sequence of a host's responses, and the expected result.
type Examination struct {
	Answers []Answer
	Want    forge.Grant
	Code    string // code of the fault
}

// RunExamine tests an adapter's Examine.
func RunExamine(t *testing.T, begin func(t testing.TB) *Server, with func(t testing.TB, s *Server, token string) forge.Forge, cases map[string]Examination) {
	cases["BadToken"] = Examination{Answers: []Answer{{401, nil, "{}"}}, Code: forge.CodeUnauthorized}
	cases["Down"] = Examination{Answers: []Answer{{502, nil, ""}}, Code: forge.CodeUnreachable}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			for _, a := range c.Answers {
				s.Next(a.handle)
			}
			got, err := with(t, s, Token).(forge.Examining).Examine(t.Context(), s.Repo)
			if fault.Of(err).Code != c.Code && (err != nil || c.Code != "") {
				t.Fatalf("%v, want the code %q", err, c.Code)
			}
			if got.Login != c.Want.Login || got.Told != c.Want.Told || !slices.Equal(got.Lacks, c.Want.Lacks) {
				t.Errorf("%+v, want %+v", got, c.Want)
			}
			if n := len(s.Requests()); n != len(c.Answers) {
				t.Errorf("%d requests", n)
			}
		})
	}
}
