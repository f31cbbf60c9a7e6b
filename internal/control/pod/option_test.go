package pod

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/redact"
	"aloft/internal/wire/podv1"
	"aloft/internal/wire/podv1/podv1connect"
)

// talking is a pod-daemon that sends the given words in its replies.
type talking struct {
	podv1connect.UnimplementedPodServiceHandler
	words string
}

func (d talking) Status(context.Context, *connect.Request[podv1.StatusRequest]) (*connect.Response[podv1.StatusResponse], error) {
	return connect.NewResponse(&podv1.StatusResponse{BootId: d.words}), nil
}

func TestSecretsOfAConnectionChange(t *testing.T) {
	c := served(t, talking{words: "one-secret later-secret"})
	for _, row := range []struct {
		secrets map[string]string
		want    string
	}{
		{nil, "one-secret later-secret"},
		{map[string]string{"k": "one-secret"}, "[REDACTED] later-secret"},
		{map[string]string{"k": "one-secret", "l": "later-secret"}, "[REDACTED] [REDACTED]"},
	} {
		c.Apply(Redact(redact.New(row.secrets)))
		if s, err := c.Status(t.Context()); err != nil || s.BootID != row.want {
			t.Errorf("with %d secrets: %q, %v, want %q", len(row.secrets), s.BootID, err, row.want)
		}
	}
}
