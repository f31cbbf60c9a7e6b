package modeltest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"aloft/internal/control/model"
)

// Hostile sends a request to a model whose server is hostile. It fails the test
// unless the stream ends as [model.Model] requires: with one complete reply
// that can be stored, or with one error of the provider.
func Hostile(t *testing.T, m model.Model, req model.Request, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	ends := 0
	for ev, err := range m.Stream(ctx, req) {
		if ends > 0 {
			t.Fatal("something came after the end")
		}
		if err != nil {
			ends++
			if model.ReasonOf(err) == "" {
				t.Fatalf("an error that is not the provider's: %v", err)
			}
			continue
		}
		if ev.Done == nil {
			continue
		}
		ends++
		if _, err := json.Marshal(ev.Done.Message); err != nil {
			t.Fatalf("a reply that cannot be stored: %v", err)
		}
		ids := map[string]bool{}
		for _, c := range ev.Done.Message.Calls() {
			if ids[c.ID] || c.ID == "" {
				t.Fatalf("call id %q is empty or there twice", c.ID)
			}
			ids[c.ID] = true
		}
	}
	if ends != 1 {
		t.Fatalf("%d ends", ends)
	}
}
