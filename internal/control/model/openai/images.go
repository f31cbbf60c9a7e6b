package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"strings"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// NewImages returns a model that generates images with the API of cfg:
// /images/generations, or /images/edits if the request has reference images. It
// does not connect. Of cfg it uses Name, BaseURL, Key and Client.
func NewImages(cfg Config) model.ImageModel {
	return &images{newClient(cfg)}
}

type images struct{ client }

// asksFormat reports whether the image's encoding must be requested. OpenAI's
// newer models always send base64 and refuse the parameter; others send a URL
// by default.
func (m *images) asksFormat() bool {
	return !strings.HasPrefix(m.cfg.Name, "gpt-image") && !strings.HasPrefix(m.cfg.Name, "chatgpt-image")
}

// Generate implements [model.ImageModel].
func (m *images) Generate(ctx context.Context, req model.ImageRequest) ([]byte, conversation.Usage, error) {
	data, used, err := m.generate(ctx, req)
	if err != nil {
		return nil, used, m.wire.Error(ctx, err)
	}
	return data, used, nil
}

func (m *images) generate(ctx context.Context, req model.ImageRequest) (data []byte, used conversation.Usage, err error) {
	path, kind, body := "/images/generations", "application/json", []byte(nil)
	if len(req.References) > 0 {
		path = "/images/edits"
		kind, body, err = m.form(req)
	} else {
		ask := map[string]any{"model": m.cfg.Name, "prompt": req.Description, "n": 1}
		if m.asksFormat() {
			ask["response_format"] = "b64_json"
		}
		body, err = json.Marshal(ask)
	}
	if err != nil {
		return nil, used, err
	}
	var reply struct {
		Data []struct {
			Image []byte `json:"b64_json"`
			URL   string `json:"url"`
		} `json:"data"`
		Usage struct {
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
		} `json:"usage"`
	}
	if err := m.document(ctx, path, kind, body, &reply); err != nil {
		return nil, used, err
	}
	used = conversation.Usage{Input: max(reply.Usage.Input, 0), Output: max(reply.Usage.Output, 0)}
	switch {
	case len(reply.Data) == 0:
		return nil, used, badReply("the reply has no image")
	case len(reply.Data[0].Image) == 0 && reply.Data[0].URL != "":
		return nil, used, badReply("the reply has a URL instead of the image itself")
	}
	return reply.Data[0].Image, used, model.CheckImage(reply.Data[0].Image)
}

// form returns a request with reference images.
func (m *images) form(req model.ImageRequest) (kind string, body []byte, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	fields := [][2]string{{"model", m.cfg.Name}, {"prompt", req.Description}, {"n", "1"}}
	if m.asksFormat() {
		fields = append(fields, [2]string{"response_format", "b64_json"})
	}
	for _, f := range fields {
		if err := w.WriteField(f[0], f[1]); err != nil {
			return "", nil, err
		}
	}
	for i, image := range req.References {
		h := textproto.MIMEHeader{}
		h.Set("Content-Disposition", fmt.Sprintf(`form-data; name="image[]"; filename="%d.%s"`, i+1, strings.TrimPrefix(image.MediaType, "image/")))
		h.Set("Content-Type", image.MediaType)
		part, err := w.CreatePart(h)
		if err != nil {
			return "", nil, err
		}
		if _, err := part.Write(image.Data); err != nil {
			return "", nil, err
		}
	}
	if err := w.Close(); err != nil {
		return "", nil, err
	}
	return w.FormDataContentType(), b.Bytes(), nil
}
