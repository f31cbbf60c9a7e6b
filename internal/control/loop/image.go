package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/agent"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/tool"
)

const paintImage = "GenerateImage"

// Limits of a request for an image.
const (
	maxDescription = 8_000 // characters
	maxReferences  = 4
)

// imageArgs are the arguments of GenerateImage.
type imageArgs struct {
	Description string   `json:"description"`
	FilePath    string   `json:"file_path"`
	References  []string `json:"reference_image_paths"`
}

// paint requests the image of a GenerateImage call from the model. If there is
// no image, outcome is the error. If the server crashes before it has sent the
// image to the machine, the next server requests another image.
func (t *thread) paint(ctx context.Context, c agent.Call) ([]byte, *outcome, error) {
	began := time.Now()
	if err := t.checkLimits(); err != nil {
		return nil, nil, err
	}
	req, refused, err := t.imageRequest(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if refused != nil {
		return nil, &outcome{result: *refused, took: time.Since(began)}, nil
	}
	data, used, err := t.Tools.Images.Generate(ctx, req)
	paid := []agent.Body{&agent.ImageGenerated{CallID: c.ID, Model: t.Tools.ImageInfo.Name, Bytes: len(data), Usage: t.Tools.ImageInfo.Of(used)}}
	if err != nil && used == (conversation.Usage{}) {
		paid = nil
	}
	if err != nil && context.Cause(ctx) == nil {
		out := failed(began, "The image was not generated: %v", err)
		out.events = paid
		return nil, &out, nil
	}
	last, cancel := journal.Outliving(ctx) // the image is already paid for
	defer cancel()
	if recordErr := t.record(last, paid...); recordErr != nil {
		return nil, nil, recordErr
	}
	if err != nil {
		return nil, nil, context.Cause(ctx)
	}
	return data, nil, nil
}

// imageRequest returns the request to the model. If there is no request, the
// result is the error.
func (t *thread) imageRequest(ctx context.Context, c agent.Call) (model.ImageRequest, *tool.Result, error) {
	refuse := func(format string, args ...any) (model.ImageRequest, *tool.Result, error) {
		r := tool.Failed(format, args...)
		return model.ImageRequest{}, &r, nil
	}
	var in imageArgs
	d := json.NewDecoder(bytes.NewReader(c.Args))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return refuse("the arguments do not match the schema: %v", err)
	}
	in.Description = strings.TrimSpace(in.Description)
	switch {
	case in.Description == "":
		return refuse("description is empty: say what the image shows")
	case utf8.RuneCountInString(in.Description) > maxDescription:
		return refuse("description has more than %d characters", maxDescription)
	case len(in.References) > maxReferences:
		return refuse("reference_image_paths has %d paths; at most %d are allowed", len(in.References), maxReferences)
	case t.holdsSecret(t.rec.Snapshot(), in.Description):
		return refuse("description contains a secret, so it was not sent: describe the image without it")
	}
	if t.rec.Snapshot().Run.Limit.Cost != 0 {
		if err := t.Tools.ImageInfo.Unpriced(); err != nil {
			return refuse("The image was not generated: %s", fault.Of(err).Message)
		}
	}
	req := model.ImageRequest{Description: in.Description}
	for i, path := range in.References {
		// After a crash the file is read again, and the id must differ.
		image, why, err := t.reference(ctx, fmt.Sprintf("%s_ref%d_%x", c.ID, i, time.Now().UnixNano()), path)
		if err != nil {
			return req, nil, err
		}
		if why != "" {
			return refuse("reference_image_paths[%d]: %s", i, why)
		}
		req.References = append(req.References, image)
	}
	return req, nil, nil
}

// reference reads an image file in the machine, scaled to the size at which a
// model would see it. If the image cannot be used, why is the reason.
func (t *thread) reference(ctx context.Context, id, path string) (image conversation.Image, why string, err error) {
	args, err := json.Marshal(map[string]string{"path": path})
	if err != nil {
		return image, "", err
	}
	const hooked = "it cannot be used, because hooks must see every file that is read: generate the image without it"
	if unhooked, err := t.machine.Unhooked(ctx, t.rec.Snapshot().Agent); err != nil || !unhooked {
		return image, hooked, err
	}
	read, _, err := t.machine.Call(ctx, conversation.ToolCall{ID: id, Name: "Read", Args: args, Unhooked: true}, func(remote.Delta) {})
	switch {
	case errors.Is(err, remote.ErrHooked):
		return image, hooked, nil
	case err != nil:
		return image, "", err
	}
	if err := t.machine.Ack(ctx, id); err != nil {
		return image, "", err
	}
	switch {
	case read.Error:
		return image, read.Text, nil
	case len(read.Images) != 1:
		return image, path + " is not an image", nil
	}
	return read.Images[0], "", nil
}
