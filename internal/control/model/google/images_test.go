package google_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"aloft/internal/control/model"
	"aloft/internal/control/model/google"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/conversation"
)

func TestImages(t *testing.T) {
	s := modeltest.NewGoogleImages(t)
	m, err := google.NewImages(google.Config{Name: modeltest.GeminiImage, BaseURL: s.URL, Key: modeltest.Key})
	if err != nil {
		t.Fatal(err)
	}
	ref := modeltest.PNG(4, 4)
	data, used, err := m.Generate(t.Context(), model.ImageRequest{Description: "a red kite", References: []conversation.Image{{MediaType: "image/png", Data: ref}}})
	if err != nil || !bytes.Equal(data, modeltest.PNG(2000, 1000)) || used != (conversation.Usage{Input: 50, Output: 1000}) {
		t.Errorf("%d bytes, %+v, %v", len(data), used, err)
	}
	if p := s.Painted(); len(p) != 1 || p[0].Description != "a red kite" || len(p[0].References) != 1 || !bytes.Equal(p[0].References[0], ref) {
		t.Errorf("the provider got %+v", p)
	}
	_, used, err = m.Generate(t.Context(), model.ImageRequest{Description: modeltest.Declined})
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Reason != model.BadReply || !strings.Contains(e.Message, "IMAGE_SAFETY") || used.Total() == 0 {
		t.Errorf("declined: %v, %+v", err, used)
	}
	s.Send([]byte("no image"))
	if _, _, err = m.Generate(t.Context(), model.ImageRequest{Description: "x"}); err == nil {
		t.Error("text was taken for an image")
	}
	if _, err := google.NewImages(google.Config{Name: modeltest.GeminiImage}); err == nil {
		t.Error("a model without a key was made")
	}
}
