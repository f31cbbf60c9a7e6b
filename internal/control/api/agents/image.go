package agents

import (
	"net/http"
	"strconv"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// eventImage sends the n-th image of an event, counted from 0. The bytes are
// untrusted, so the headers keep browsers from interpreting them as anything
// but an image of the event's type.
func (s *API) eventImage(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	missing := fault.NotFound("the event has no such image")
	seq, err1 := strconv.ParseInt(r.PathValue("seq"), 10, 64)
	n, err2 := strconv.Atoi(r.PathValue("n"))
	if err1 != nil || err2 != nil || seq < 1 || n < 0 {
		return missing
	}
	events, err := s.Journal.Read(r.Context(), a.ID, seq-1, 1)
	if err != nil {
		return err
	}
	if len(events) == 0 {
		return missing
	}
	images := imagesOf(events[0].Body)
	if n >= len(images) {
		return missing
	}
	im := images[n]
	switch im.MediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default: // an SVG can contain scripts
		return missing
	}
	h := w.Header()
	h.Set("Content-Type", im.MediaType)
	h.Set("Content-Length", strconv.Itoa(len(im.Data)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, max-age=86400, immutable") // events never change
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err = w.Write(im.Data)
	return err
}

func imagesOf(body agent.Body) (out []conversation.Image) {
	var blocks []conversation.Block
	switch b := body.(type) {
	case *agent.RunCreated:
		blocks = b.Prompt.Blocks
	case *agent.Queued:
		blocks = b.Prompt.Blocks
	case *agent.CallDone:
		return b.Images
	case *agent.Within:
		return imagesOf(b.Body)
	}
	for _, b := range blocks {
		if b.Image != nil {
			out = append(out, *b.Image)
		}
	}
	return out
}
