package checkout

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"error: RPC failed; curl 18 transfer closed\nfatal: write error: No space left on device":                            CodeDiskFull,
		"fatal: repository 'http://g/https/h/o/r/' not found":                                                                CodeRepoNotFound,
		"remote: no such repository\nfatal: unable to access 'x': The requested URL returned error: 404":                     CodeRepoNotFound,
		"fatal: unable to access 'x': The requested URL returned error: 403":                                                 CodeDenied,
		"fatal: Authentication failed for 'x'":                                                                               CodeDenied,
		"fatal: could not read Username for 'http://127.0.0.1:26499': terminal prompts disabled":                             CodeDenied,
		" ! [remote rejected] HEAD -> main (push to main is not allowed)":                                                    CodeDenied,
		" ! [rejected]        HEAD -> b (fetch first)\nerror: failed to push some refs to 'x'":                               CodeBranchTaken,
		" ! [rejected]        HEAD -> b (non-fast-forward)":                                                                  CodeBranchTaken,
		" ! [remote rejected] HEAD -> b (cannot lock ref 'refs/heads/b': reference already exists)":                          CodeBranchTaken,
		"warning: Could not find remote branch x to clone.\nfatal: Remote branch x not found in upstream origin":             CodeRefNotFound,
		"remote: The push contains a secret\n ! [remote rejected] HEAD -> b (secret in push)":                                CodeSecretInPush,
		"fatal: unable to access 'x': The requested URL returned error: 502":                                                 CodeUnavailable,
		"fatal: unable to access 'x': Failed to connect to 127.0.0.1 port 26499 after 0 ms: Couldn't connect to server":      CodeUnavailable,
		"fatal: unable to access 'x': Empty reply from server":                                                               CodeUnavailable,
		"fetch-pack: unexpected disconnect while reading sideband packet\nfatal: early EOF":                                  CodeUnavailable,
		"fatal: something that nobody has seen":                                                                              CodeInternal,
		"fatal: destination path '/workspace' already exists and is not an empty directory.":                                 CodeInternal,
		"error: src refspec HEAD does not match any\nerror: failed to push some refs to 'x'":                                 CodeNoCommit,
		"remote: disk quota exceeded\nfatal: unable to access 'http://127.0.0.1/': The requested URL returned error: 507":    CodeDiskFull,
		"remote: this run may push to aloft/x only\nfatal: unable to access 'x': The requested URL returned error: 403 done": CodeDenied,
	}
	for said, want := range tests {
		if got := classify(said); got != want {
			t.Errorf("%s: %s, want %s", said, got, want)
		}
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	var told []string
	words := newTail(func(s string) { told = append(told, s) })
	for _, part := range []string{
		"Cloning into '/workspace'...\nremote: Counting obj", "ects:  45% (600/1347)\rremote: Counting objects: 100% (1347/1347), done.        \n",
		"Receiving objects:  1% (1/100), 1.2 MiB | 3.00 MiB/s\rremote: what the forge says\nfatal: \xff\xfethe secret s3cret\nfatal: end",
	} {
		if _, err := words.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"counting objects 45%"}; !slices.Equal(told, want) {
		t.Errorf("progress %q, want %q (and no more in the same second)", told, want)
	}
	f := (&Repository{Secret: "s3cret"}).failure(words)
	if f.Detail != "remote: what the forge says\nfatal: the secret ***\nfatal: end" {
		t.Errorf("detail: %q", f.Detail)
	}
}

func FuzzTail(f *testing.F) {
	f.Add([]byte("remote: Counting objects:  45% (600/1347)\rfatal: x\n"))
	f.Add([]byte(strings.Repeat("long ", 5000)))
	f.Add([]byte(strings.Repeat("\xff\n", 5000)))
	f.Fuzz(func(t *testing.T, said []byte) {
		words := newTail(func(string) {})
		_, _ = words.Write(said)
		detail := (&Repository{Secret: "s3cret"}).failure(words).Detail
		if !utf8.ValidString(detail) || len(detail) > maxDetail+16 || strings.Contains(detail, "s3cret") {
			t.Errorf("%q: %q", said, detail)
		}
	})
}
