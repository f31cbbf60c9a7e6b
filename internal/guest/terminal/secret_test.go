package terminal

import (
	"bytes"
	"strings"
	"testing"

	"aloft/internal/redact"
)

// TestNoSecretIsShown checks that a secret is redacted even if it is written in
// two pieces and kept in the scrollback. A prompt that might be the beginning
// of a secret must be shown while the program waits for input.
func TestNoSecretIsShown(t *testing.T) {
	r := redact.New(map[string]string{"k": "glpat-a-very-secret-token"})
	h := New(Config{Dir: t.TempDir(), Secrets: func() *redact.Redactor { return r }})
	defer h.Close()
	const command = "stty -echo; A=glpat-a-very-; printf $A; printf 'secret-token\n'; printf 'more? g'; read x; echo \"$x\""
	p, err := h.Spawn(Spec{Args: []string{"sh", "-c", command}})
	if err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	b := make([]byte, 1<<10)
	for from := int64(0); ; {
		n, at, err := p.Read(t.Context(), from, b)
		if err != nil {
			break
		}
		from = at + int64(n)
		seen.Write(b[:n])
		if strings.HasSuffix(seen.String(), "more? g") {
			if err := p.Type(t.Context(), []byte("yes\n")); err != nil {
				t.Fatal(err)
			}
		}
	}
	// If the two halves of a secret arrive far apart, the first is shown if it is too short to
	// count as a secret.
	whole := func(got, want string) bool {
		early, ok := strings.CutSuffix(got, want)
		return ok && len(early) < redact.MinLength
	}
	if got := seen.String(); !whole(got, "[REDACTED]\r\nmore? gyes\r\n") {
		t.Errorf("seen: %q", got)
	}
	var out, errs bytes.Buffer
	if _, err := h.Run(t.Context(), Spec{Args: []string{"sh", "-c", "A=glpat-a-very-; printf $A; printf 'secret-token g'; printf $A'secret-token' >&2"}}, nil, &out, &errs); err != nil {
		t.Fatal(err)
	}
	if !whole(out.String(), "[REDACTED] g") || errs.String() != "[REDACTED]" {
		t.Errorf("said %q and %q", out.String(), errs.String())
	}
}
