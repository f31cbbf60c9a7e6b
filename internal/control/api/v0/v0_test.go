package v0

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"aloft/internal/fault"
)

func TestSplit(t *testing.T) {
	for raw, want := range map[string]string{
		"https://git.example.com/o/r.git":     "o r",
		"https://git.example.com/a/b/c":       "a/b c",
		"ssh://git@git.example.com/o/r.git":   "o r",
		"https://git.example.com/alone":       " alone",
		"https://git.example.com/o/r.git.git": "o r.git",
	} {
		if owner, name := split(raw); owner+" "+name != want {
			t.Errorf("%s is %q of %q", raw, name, owner)
		}
	}
}

// TestPicture checks that the type of an image is detected in every form of
// base64.
func TestPicture(t *testing.T) {
	plain := base64.StdEncoding.EncodeToString(append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 2000)...))
	var lines strings.Builder
	for at := 0; at < len(plain); at += 76 {
		lines.WriteString(plain[at:min(at+76, len(plain))] + "\r\n")
	}
	for _, data := range []string{plain, lines.String(), "data:image/png;base64," + plain, plain[:16]} {
		if _, media, err := picture(data); err != nil || media != "image/png" {
			t.Errorf("%.40q: %s, %v", data, media, err)
		}
	}
	if _, _, err := picture("%%%%"); err == nil {
		t.Error("what is not base64 is taken")
	}
}

// FuzzCreateAgentRequest checks that every body becomes either a /v1 request or
// a fault that describes the problem.
func FuzzCreateAgentRequest(f *testing.F) {
	f.Add(`{"prompt":{"text":"x","images":[{"data":"iVBORw0KGgo="},{"url":"https://h/a.png"}]},"source":{"repository":"https://h/a","ref":"main"}}`)
	f.Add(`{"prompt":null,"source":null,"target":null}`)
	f.Add(`{"prompt":{"text":""},"source":{"prUrl":"x"},"target":{"autoBranch":false,"branchName":"b"},"webhook":{"url":"u"}}`)
	f.Fuzz(func(t *testing.T, body string) {
		var in CreateAgentRequest
		if json.Unmarshal([]byte(body), &in) != nil {
			return
		}
		out, err := in.v1()
		if err != nil {
			if !fault.Is(err, fault.KindInvalid) || fault.Of(err).Field == "" {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		if _, err := json.Marshal(out); err != nil {
			t.Errorf("%q becomes %v: %v", body, out, err)
		}
	})
}
