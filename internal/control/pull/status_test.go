package pull

import (
	"testing"

	"aloft/internal/control/forge"
)

// TestReviewOf checks that the newest verdict of each reviewer counts, and comments
// do not.
func TestReviewOf(t *testing.T) {
	by := func(author string, verdict forge.ReviewVerdict) forge.Review {
		return forge.Review{Author: author, Verdict: verdict}
	}
	for name, c := range map[string]struct {
		reviews []forge.Review
		want    forge.ReviewVerdict
	}{
		"None":             {nil, ""},
		"OnlyComments":     {[]forge.Review{by("a", forge.Commented)}, ""},
		"Approved":         {[]forge.Review{by("a", forge.Approved), by("a", forge.Commented)}, forge.Approved},
		"OneRequests":      {[]forge.Review{by("a", forge.ChangesRequested), by("b", forge.Approved)}, forge.ChangesRequested},
		"ThenApproves":     {[]forge.Review{by("a", forge.ChangesRequested), by("a", forge.Approved)}, forge.Approved},
		"ThenIsDismissed":  {[]forge.Review{by("a", forge.ChangesRequested), by("a", forge.Dismissed)}, ""},
		"OthersStillCount": {[]forge.Review{by("a", forge.Approved), by("b", forge.ChangesRequested), by("a", forge.Commented)}, forge.ChangesRequested},
	} {
		t.Run(name, func(t *testing.T) {
			got := reviewOf(c.reviews, []forge.Thread{{}, {Resolved: true}, {Outdated: true}})
			if got.Verdict != c.want || got.Threads != 2 {
				t.Errorf("got %+v, want %q and 2 threads", got, c.want)
			}
		})
	}
}
