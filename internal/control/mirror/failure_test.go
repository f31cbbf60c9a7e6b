package mirror

import (
	"testing"

	"aloft/internal/control/repourl"
	"aloft/internal/fault"
)

func TestClassify(t *testing.T) {
	r, err := repourl.Parse("https://h/r")
	if err != nil {
		t.Fatal(err)
	}
	cred := &credential{url: "https://h", token: "t0ken"}
	for stderr, want := range map[string]string{
		"fatal: Authentication failed for 'https://h/r/'":                                                        CodeCredentialRefused,
		"fatal: unable to access 'https://h/r/': The requested URL returned error: 403":                          CodeCredentialRefused,
		"git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.":                   CodeCredentialRefused,
		"remote: Repository not found.\nfatal: repository 'https://h/r/' not found":                              CodeRepoNotFound,
		"remote: The project you were looking for could not be found or you don't have permission to view it.":   CodeRepoNotFound,
		"fatal: unable to access 'https://h/r/': Could not resolve host: h":                                      CodeUnreachable,
		"fatal: unable to access 'https://h/r/': Failed to connect to h port 443 after 1 ms: Connection refused": CodeUnreachable,
		"fatal: unable to access 'https://h/r/': SSL certificate problem: self-signed certificate":               CodeUnreachable,
		"Host key verification failed.\nfatal: Could not read from remote repository.":                           CodeUnreachable,
		"fatal: write error: No space left on device":                                                            CodeDiskFull,
		"": CodeUnreachable,
	} {
		err := classify(r, cred, stderr, &gitError{args: []string{"fetch"}, err: errTooMuch})
		if f := fault.Of(err); f.Code != want || f.Advice == "" {
			t.Errorf("%q: %s, %v", stderr, f.Code, err)
		}
	}
}
