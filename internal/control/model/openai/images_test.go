package openai_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/control/model"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/control/model/openai"
	"aloft/internal/conversation"
)

func TestImages(t *testing.T) {
	s := modeltest.NewImages(t)
	paint := func(name, key string, req model.ImageRequest) ([]byte, conversation.Usage, error) {
		return openai.NewImages(openai.Config{Name: name, BaseURL: s.URL, Key: key}).Generate(t.Context(), req)
	}
	plain, ref := model.ImageRequest{Description: "a red kite"}, modeltest.PNG(4, 4)
	edit := model.ImageRequest{Description: "make it blue", References: []conversation.Image{{MediaType: "image/png", Data: ref}}}
	for name, want := range map[string]conversation.Usage{modeltest.GPTImage: {Input: 50, Output: 1000}, modeltest.DallE: {}} {
		for _, req := range []model.ImageRequest{plain, edit} {
			data, used, err := paint(name, modeltest.Key, req)
			if err != nil || !bytes.Equal(data, modeltest.PNG(2000, 1000)) || used != want {
				t.Errorf("%s %s: %d bytes, %+v, %v", name, req.Description, len(data), used, err)
			}
		}
	}
	if n := len(s.Painted()); n != 4 {
		t.Errorf("%d images, want 4", n)
	}
	if diff := cmp.Diff([][]byte{ref}, s.Painted()[1].References); diff != "" {
		t.Error(diff)
	}

	reason := func(err error) model.Reason {
		e, ok := errors.AsType[*model.Error](err)
		if !ok || strings.Contains(err.Error(), modeltest.Key) {
			t.Errorf("got %v", err)
			return ""
		}
		return e.Reason
	}
	got := map[string]model.Reason{}
	_, _, err := paint(modeltest.GPTImage, "sk-wrong", plain)
	got["wrong key"] = reason(err)
	_, _, err = paint("gpt-image-9", modeltest.Key, plain)
	got["unknown model"] = reason(err)
	_, _, err = paint(modeltest.GPTImage, modeltest.Key, model.ImageRequest{Description: modeltest.Declined})
	got["declined"] = reason(err)
	s.Fail(http.StatusTooManyRequests)
	_, _, err = paint(modeltest.GPTImage, modeltest.Key, plain)
	got["busy"] = reason(err)
	s.Fail(0)
	for what, data := range map[string][]byte{"a page": []byte("<html>no</html>"), "nothing": nil, "too large": append(modeltest.PNG(4, 4), make([]byte, model.MaxImage)...)} {
		s.Send(data)
		_, _, err = paint(modeltest.GPTImage, modeltest.Key, plain)
		got[what] = reason(err)
	}
	want := map[string]model.Reason{
		"wrong key": model.Unauthorized, "unknown model": model.NotFound, "declined": model.BadRequest, "busy": model.RateLimited,
		"a page": model.BadReply, "nothing": model.BadReply, "too large": model.BadReply,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
