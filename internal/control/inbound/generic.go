package inbound

import (
	"encoding/json"
	"net/http"
)

// generic receives events from any sender that signs as Standard Webhooks
// specifies, such as a CI system that reports nothing to the forge. The body is
// small, so 256 KiB are plenty.
var generic = source{
	maxBody: 256 << 10,
	verify:  standard,
	id: func(h http.Header, _ []byte) (delivery, kind string) {
		return h.Get("webhook-id"), "change"
	},
	parse: parseGeneric,
	check: checkStandard,
}

// genericEvent is the body of a generic event.
type genericEvent struct {
	Repository  string // owner/name
	PullRequest int    `json:"pullRequest"`
	Branch      string
	Commit      string
	Kind        Kind
	Check       string
	Actor       string
}

func parseGeneric(_ string, body []byte) (payload, error) {
	var e genericEvent
	if err := json.Unmarshal(body, &e); err != nil {
		return payload{}, err
	}
	p := payload{e.Repository, Change{Number: e.PullRequest, Branch: e.Branch, Commit: e.Commit, Kind: e.Kind, Check: e.Check, Actor: e.Actor}}
	switch e.Kind {
	case Comment, PullRequest:
	case Check, "":
		p.Kind, p.Actor = Check, ""
	default:
		return p, ignore("events of the type %q are ignored", e.Kind)
	}
	return p, nil
}
