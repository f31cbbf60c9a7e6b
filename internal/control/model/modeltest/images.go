package modeltest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Models that generate images. GPTImage rejects response_format and reports
// tokens. DallE sends a URL unless the request asks for base64, and reports no
// tokens.
const (
	GPTImage    = "gpt-image-1"
	DallE       = "dall-e-3"
	GeminiImage = "gemini-2.5-flash-image"
)

// Declined is a description that every fake image server declines.
const Declined = "something forbidden"

// PNG returns an image of one color.
func PNG(width, height int) []byte {
	im := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range im.Pix {
		im.Pix[i] = 0x80
	}
	im.Set(0, 0, color.White)
	var b bytes.Buffer
	if err := png.Encode(&b, im); err != nil {
		panic(fmt.Sprintf("modeltest: %v", err)) // writing to a buffer cannot fail
	}
	return b.Bytes()
}

// Painted is a request to which an [ImageServer] has replied with an image.
type Painted struct {
	Path, Model, Description string
	References               [][]byte
}

// ImageServer is a fake of a provider's image API. Its methods are safe for
// concurrent use.
type ImageServer struct {
	URL string // the base_url in a user's configuration

	mu      sync.Mutex
	painted []Painted
	status  int
	image   []byte
}

// NewImages starts a server that implements OpenAI's image API.
func NewImages(t testing.TB) *ImageServer { return startImages(t, "/v1", openAIImages) }

// NewGoogleImages starts a server that implements the Gemini API for images.
func NewGoogleImages(t testing.TB) *ImageServer { return startImages(t, "", googleImages) }

func startImages(t testing.TB, prefix string, answer func(*http.Request, []byte) (Painted, func(image []byte) any, error)) *ImageServer {
	s := &ImageServer{image: PNG(2000, 1000)}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
		if err != nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		made, reply, err := answer(r, body)
		w.Header().Set("Content-Type", "application/json")
		status := http.StatusOK
		var out any
		switch refused, ok := errors.AsType[refusal](err); {
		case ok:
			status, out = refused.status, object{"error": object{"message": refused.words}}
		case s.status != 0:
			status, out = s.status, object{"error": object{"message": "it broke"}}
		default:
			s.painted = append(s.painted, made)
			out = reply(s.image)
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(h.Close)
	s.URL = h.URL + prefix
	return s
}

// Painted returns the requests to which the server has replied with an image.
func (s *ImageServer) Painted() []Painted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.painted)
}

// Fail makes the server answer valid requests with a status; 0 makes it answer
// normally again.
func (s *ImageServer) Fail(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// Send replaces the image that the server sends. The data need not be an image.
func (s *ImageServer) Send(image []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.image = image
}

// refusal is a request that an image server rejects.
type refusal struct {
	status int
	words  string
}

func (r refusal) Error() string { return r.words }

func openAIImages(r *http.Request, body []byte) (Painted, func([]byte) any, error) {
	p, format := Painted{Path: r.URL.Path}, ""
	if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer "+Key {
		return p, nil, refusal{http.StatusUnauthorized, "Incorrect API key provided."}
	}
	switch r.URL.Path {
	case "/v1/images/generations":
		var q struct {
			Model          string `json:"model"`
			Prompt         string `json:"prompt"`
			N              int    `json:"n"`
			ResponseFormat string `json:"response_format"`
		}
		if err := strict(body, &q); err != nil || q.N != 1 || r.Header.Get("Content-Type") != "application/json" {
			return p, nil, refusal{http.StatusBadRequest, fmt.Sprintf("Unknown parameter: %v", err)}
		}
		p.Model, p.Description, format = q.Model, q.Prompt, q.ResponseFormat
	case "/v1/images/edits":
		kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != "multipart/form-data" {
			return p, nil, refusal{http.StatusBadRequest, "edits are multipart/form-data"}
		}
		form, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).ReadForm(64 << 20)
		if err != nil {
			return p, nil, refusal{http.StatusBadRequest, err.Error()}
		}
		for name, values := range form.Value {
			switch name {
			case "model":
				p.Model = values[0]
			case "prompt":
				p.Description = values[0]
			case "response_format":
				format = values[0]
			case "n":
			default:
				return p, nil, refusal{http.StatusBadRequest, "Unknown parameter: " + name}
			}
		}
		for _, h := range form.File["image[]"] {
			f, err := h.Open()
			if err != nil {
				return p, nil, err
			}
			data, err := io.ReadAll(f)
			if err != nil || http.DetectContentType(data) != h.Header.Get("Content-Type") {
				return p, nil, refusal{http.StatusBadRequest, "Invalid image file."}
			}
			p.References = append(p.References, data)
		}
		if len(p.References) == 0 {
			return p, nil, refusal{http.StatusBadRequest, "Missing required parameter: 'image'."}
		}
	default:
		return p, nil, refusal{http.StatusNotFound, "no " + r.URL.Path}
	}
	switch {
	case p.Model != GPTImage && p.Model != DallE:
		return p, nil, refusal{http.StatusNotFound, "The model does not exist."}
	case p.Model == GPTImage && format != "":
		return p, nil, refusal{http.StatusBadRequest, "Unknown parameter: 'response_format'."}
	case p.Description == "":
		return p, nil, refusal{http.StatusBadRequest, "Missing required parameter: 'prompt'."}
	case p.Description == Declined:
		return p, nil, refusal{http.StatusBadRequest, "Your request was rejected by the safety system."}
	}
	return p, func(image []byte) any {
		out := object{"created": 1, "data": []object{{"b64_json": base64.StdEncoding.EncodeToString(image)}}}
		if p.Model == DallE && format != "b64_json" {
			out["data"] = []object{{"url": "https://images.example.com/1.png"}}
		}
		if p.Model == GPTImage {
			out["usage"] = object{"input_tokens": 50, "output_tokens": 1000, "total_tokens": 1050}
		}
		return out
	}, nil
}

func googleImages(r *http.Request, body []byte) (Painted, func([]byte) any, error) {
	p := Painted{Path: r.URL.Path, Model: GeminiImage}
	switch {
	case r.URL.Path != "/v1beta/models/"+GeminiImage+":generateContent":
		return p, nil, refusal{http.StatusNotFound, "no " + r.URL.Path}
	case r.Header.Get("X-Goog-Api-Key") != Key:
		return p, nil, refusal{http.StatusBadRequest, "API key not valid. Please pass a valid API key."}
	}
	var q struct {
		Contents         []googleContent `json:"contents"`
		GenerationConfig struct {
			ResponseModalities []string `json:"responseModalities"`
		} `json:"generationConfig"`
	}
	if err := strict(body, &q); err != nil || len(q.Contents) != 1 || q.Contents[0].Role != "user" {
		return p, nil, refusal{http.StatusBadRequest, fmt.Sprintf("Invalid JSON payload received: %v", err)}
	}
	if !slices.Contains(q.GenerationConfig.ResponseModalities, "IMAGE") {
		return p, nil, refusal{http.StatusBadRequest, "The requested combination of response modalities is not supported by the model."}
	}
	if _, _, err := checkParts(q.Contents[0], nil); err != nil {
		return p, nil, refusal{http.StatusBadRequest, err.Error()}
	}
	for _, part := range q.Contents[0].Parts {
		if part.Text != nil {
			p.Description += strings.TrimSpace(*part.Text)
			continue
		}
		data, err := base64.StdEncoding.DecodeString(part.InlineData.Data)
		if err != nil {
			return p, nil, err
		}
		p.References = append(p.References, data)
	}
	usage := object{"promptTokenCount": 50, "candidatesTokenCount": 1000, "totalTokenCount": 1050}
	return p, func(image []byte) any {
		if p.Description == Declined {
			return object{"candidates": []object{{"finishReason": "IMAGE_SAFETY", "index": 0}}, "usageMetadata": usage}
		}
		return object{"candidates": []object{{
			"content":      object{"role": "model", "parts": []object{{"text": "Here it is."}, {"inlineData": object{"mimeType": "image/png", "data": base64.StdEncoding.EncodeToString(image)}}}},
			"finishReason": "STOP", "index": 0,
		}}, "usageMetadata": usage}
	}, nil
}
