package shell

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// Variable returns the value of an exported variable of the session; "" if it is
// not set. It returns an error for a value with control characters.
func (s *Session) Variable(ctx context.Context, name string) (string, error) {
	for {
		if err := s.take(ctx); err != nil {
			return "", err
		}
		file := s.saved
		var text []byte
		var err error
		if file != "" {
			text, err = os.ReadFile(file)
		}
		s.give()
		if err != nil {
			return "", fmt.Errorf("shell: %w", err)
		}
		if file != "" {
			return exported(string(text), name)
		}
		// Until the first command has ended, nothing is saved.
		if _, err := s.Run(ctx, Command{Text: ":", Timeout: time.Minute}, nil); err != nil {
			return "", err
		}
	}
}

// exported finds a variable in the output of bash's declare -px.
func exported(text, name string) (string, error) {
	for line := range strings.Lines(text) {
		flags, rest, _ := strings.Cut(strings.TrimPrefix(line, "declare -"), " ")
		value, found := strings.CutPrefix(rest, name+"=")
		if !found || !strings.HasPrefix(line, "declare -") || !strings.Contains(flags, "x") {
			continue
		}
		value, quoted := strings.CutPrefix(strings.TrimSuffix(value, "\n"), `"`)
		if value, closed := strings.CutSuffix(value, `"`); quoted && closed {
			return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, "$", "\\`", "`").Replace(value), nil
		}
		return "", fmt.Errorf("the value of %s has control characters", name)
	}
	return "", nil
}
