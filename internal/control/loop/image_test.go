package loop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/control/model/openai"
	"aloft/internal/conversation"
	"aloft/internal/policy/permit"
	"aloft/internal/redact"
	"aloft/internal/tool"
)

// paints connects the rig to a provider of images. The rig's machine saves the
// images, and already has one, ref.png.
func (r *rig) paints() *modeltest.ImageServer {
	r.t.Helper()
	s, price := modeltest.NewImages(r.t), 10.0
	r.change = func(c *loop.Config) {
		c.Tools.Images = openai.NewImages(openai.Config{Name: modeltest.GPTImage, BaseURL: s.URL, Key: modeltest.Key})
		c.Tools.ImageInfo = model.ImageInfo{Name: modeltest.GPTImage, Price: &model.Price{Input: &price, Output: &price}}
		c.Secrets = func(*agent.State) *redact.Redactor { return redact.New(map[string]string{"TOKEN": "s3cr3t-value"}) }
	}
	r.machine.call = func(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
		switch {
		case c.Name == "Read" && string(c.Args) == `{"path":"ref.png"}`:
			return tool.Result{Text: "[image/png]", Images: []conversation.Image{{MediaType: "image/png", Data: modeltest.PNG(4, 4)}}}, nil
		case c.Name == "Read":
			return tool.Failed("no such file"), nil
		case len(c.Payload) == 0 || strings.Contains(string(c.Args)+c.ID, modeltest.Key):
			return tool.Failed("the image did not arrive"), nil
		}
		return tool.Result{Text: "[saved]", Output: json.RawMessage(`{"success":{}}`), Images: []conversation.Image{{MediaType: "image/png", Data: c.Payload[:8]}}}, nil
	}
	return s
}

func TestGenerateImage(t *testing.T) {
	r := newRig(t, false)
	s := r.paints()
	rows := [][2]string{
		{`{"description":" a red kite ","file_path":"kite.png"}`, "[saved]"},
		{`{"description":"a blue one","reference_image_paths":["ref.png"]}`, "[saved]"},
		{`{"description":"x","reference_image_paths":["none.png"]}`, "reference_image_paths[0]: no such file"},
		{`{"description":"x","reference_image_paths":["a","b","c","d","e"]}`, "reference_image_paths has 5 paths; at most 4 are allowed"},
		{`{"description":" "}`, "description is empty: say what the image shows"},
		{`{"description":"` + strings.Repeat("é", 8001) + `"}`, "description has more than 8000 characters"},
		{`{"description":"on it: s3cr3t-value"}`, "description contains a secret, so it was not sent: describe the image without it"},
		{`{"description":"` + modeltest.Declined + `"}`, "The image was not generated: model_bad_request (HTTP 400): Your request was rejected by the safety system."},
		{`{"prompt":"x"}`, `the arguments do not match the schema: json: unknown field "prompt"`},
	}
	var want []string
	for _, row := range rows {
		r.model.steps = append(r.model.steps, use("GenerateImage "+row[0]))
		want = append(want, row[1])
	}
	r.model.steps = append(r.model.steps, say("done"))
	run := r.work(t.Context())
	if diff := cmp.Diff(want, results(r)); diff != "" {
		t.Error(diff)
	}
	painted := s.Painted()
	if len(painted) != 2 || painted[0].Description != "a red kite" || len(painted[1].References) != 1 || !bytes.Equal(painted[1].References[0], modeltest.PNG(4, 4)) {
		t.Errorf("the provider got %+v", painted)
	}
	made := bodies[*agent.ImageGenerated](r)
	if len(made) != 2 || made[0].Model != modeltest.GPTImage || made[0].Bytes == 0 || made[0].Usage.Cost != 1050*10*1000 || run.Usage.Cost != 2*made[0].Usage.Cost {
		t.Errorf("journaled %+v, the run has used %+v", made, run.Usage)
	}
	if images := bodies[*agent.CallDone](r)[0].Images; len(images) != 1 || !bytes.HasPrefix(images[0].Data, []byte("\x89PNG")) {
		t.Errorf("the model is shown %+v", images)
	}
}

// The image's description leaves the server, so a person or the classifier must
// approve the call.
func TestGenerateImageIsReviewed(t *testing.T) {
	const call = `GenerateImage {"description":"our customer list","file_path":"a.png","reference_image_paths":["ref.png"]}`
	for mode, want := range map[permit.Mode]string{permit.RunEverything: "run by policy", permit.Allowlist: "refused by person"} {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t, false)
			s := r.paints()
			r.reviewed(mode, "")
			if mode == permit.Allowlist {
				r.answer(agent.Deny, "")
			}
			r.model.steps = []step{use(call), say("done")}
			r.work(t.Context())
			if diff := cmp.Diff([]string{want}, treatments(r)); diff != "" || (len(s.Painted()) == 0) != (mode == permit.Allowlist) {
				t.Errorf("%d images, %s", len(s.Painted()), diff)
			}
			for _, q := range bodies[*agent.ApprovalAsked](r) {
				if q.Approval.Subject != "generate an image a.png from ref.png" || q.Approval.Change != "our customer list" {
					t.Errorf("the person was asked %+v", q.Approval)
				}
			}
		})
	}
}

// An image counts towards the run's limits. If the run has a cost limit, the
// price must be known.
func TestGenerateImageWithinLimits(t *testing.T) {
	const call = `GenerateImage {"description":"x"}`
	r := newRig(t, false)
	s := r.paints()
	price := 0.0
	r.info.Price = &model.Price{Input: &price, Output: &price, CacheRead: &price, CacheWrite: &price}
	r.allowed = allowance.Amount{Cost: 15_000_000} // the limit is more than the cost of one image
	r.model.steps = []step{use(call), use(call), use(call), say("done")}
	if run := r.work(t.Context()); run.Status != agent.Expired || len(s.Painted()) != 2 {
		t.Errorf("%s after %d images", run.Status, len(s.Painted()))
	}

	r = newRig(t, false)
	s = r.paints()
	change := r.change
	r.change = func(c *loop.Config) {
		change(c)
		c.Tools.ImageInfo.Price = nil
	}
	r.info.Price = &model.Price{Input: &price, Output: &price, CacheRead: &price, CacheWrite: &price}
	r.allowed = allowance.Amount{Cost: 15_000_000}
	r.model.steps = []step{use(call), say("done")}
	r.work(t.Context())
	if got := results(r); len(got) != 1 || !strings.Contains(got[0], "the price of the image model gpt-image-1 is not known") || len(s.Painted()) != 0 {
		t.Errorf("got %q and %d images", got, len(s.Painted()))
	}
}

// painter is an image model that stops the server when it gets a request.
type painter struct{ stop context.CancelCauseFunc }

func (p painter) Generate(ctx context.Context, _ model.ImageRequest) ([]byte, conversation.Usage, error) {
	p.stop(loop.ErrStop)
	return nil, conversation.Usage{}, context.Cause(ctx)
}

// If a shutdown interrupts an image request, the next server repeats it. If the
// machine has the image, the server does not request it again.
func TestGenerateImageOverARestart(t *testing.T) {
	r := newRig(t, false)
	r.model.steps = []step{use(`GenerateImage {"description":"x","reference_image_paths":["ref.png"]}`), say("done")}
	ctx, stop := context.WithCancelCause(t.Context())
	s := r.paints()
	change := r.change
	r.change = func(c *loop.Config) {
		change(c)
		c.Tools.Images = painter{stop}
	}
	if err := loop.Run(ctx, r.id, r.config()); !errors.Is(err, loop.ErrStop) {
		t.Fatalf("got %v", err)
	}
	r.change = change
	saves := r.machine.call
	saving := make(chan struct{})
	r.machine.call = func(ctx context.Context, c conversation.ToolCall, d func(remote.Delta)) (tool.Result, error) {
		if c.Name == "GenerateImage" {
			close(saving)
			<-ctx.Done()
		}
		return saves(ctx, c, d)
	}
	r.restart(func() { <-saving })
	r.machine.call = saves
	r.work(t.Context())
	if diff := cmp.Diff([]string{"[saved]"}, results(r)); diff != "" || len(s.Painted()) != 1 {
		t.Errorf("%d images, %s", len(s.Painted()), diff)
	}
}

// Without an image model the tool is not offered. A busy provider gets no
// second request.
func TestGenerateImageNeedsAModel(t *testing.T) {
	r := newRig(t, false)
	r.model.steps = []step{use(`GenerateImage {"description":"x"}`), say("done")}
	r.work(t.Context())
	if diff := cmp.Diff([]string{"GenerateImage is not available: needs a model for images in the server's configuration (image_model)"}, results(r)); diff != "" {
		t.Error(diff)
	}
	for _, spec := range r.model.requests[0].Tools {
		if spec.Name == "GenerateImage" {
			t.Error("offered without a model")
		}
	}
	r = newRig(t, false)
	r.paints().Fail(http.StatusServiceUnavailable)
	r.model.steps = []step{use(`GenerateImage {"description":"x"}`), say("done")}
	r.work(t.Context())
	if got := results(r); len(got) != 1 || !strings.Contains(got[0], "The image was not generated: model_overloaded (HTTP 503)") || len(bodies[*agent.ImageGenerated](r)) != 0 {
		t.Errorf("got %q", got)
	}
}
