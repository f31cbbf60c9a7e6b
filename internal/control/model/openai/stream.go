package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"aloft/internal/control/model"
)

// maxEvent bounds, in bytes, a line of a stream.
const maxEvent = 32 << 20

// A decoder turns the events of one stream into ours.
type decoder interface {
	// event returns what one event becomes: any number of ours, or the error
	// that the provider reports in it.
	event(data []byte) ([]model.Event, error)
	// end returns the whole reply if the stream held one.
	end() (model.Event, bool)
}

// post asks the server, and yields what its stream says to its end. body has the
// marks of encoded.
func (c client) post(ctx context.Context, path string, body any, encoded model.Splice, d decoder, yield func(model.Event, error) bool) {
	inner, stop := context.WithCancel(model.WithSplice(ctx, encoded))
	defer stop()
	err := c.stream(inner, path, body, func(data []byte) (more bool, err error) {
		events, err := d.event(data)
		for _, ev := range events {
			if !yield(ev, nil) || ev.Done != nil {
				return false, errDone
			}
		}
		return err == nil, err
	})
	switch {
	case errors.Is(err, errDone):
		return
	case err == nil && ctx.Err() == nil:
		if ev, ok := d.end(); ok {
			yield(ev, nil)
			return
		}
		err = model.CutShort()
	case err == nil:
		err = ctx.Err()
	}
	yield(model.Event{}, c.wire.Error(ctx, err))
}

// errDone ends a stream of which nothing more is wanted.
var errDone = errors.New("the reply is whole, or nobody reads on")

// stream sends body and gives take the data of each event, until that wants no
// more or the stream ends.
func (c client) stream(ctx context.Context, path string, body any, take func([]byte) (bool, error)) error {
	text, err := model.JSON(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	req.Header.Set("User-Agent", "aloft")
	if c.cfg.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	resp, err := c.wire.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
		}
		if len(line) > 0 || len(data) == 0 {
			continue
		}
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			return nil
		}
		if more, err := take(data); !more {
			return err
		}
		data = data[:0]
	}
	return lines.Err()
}

// decode reads an event. A field that is not of its type is passed over, as other
// servers than OpenAI's fill fields that nobody reads with what they like. The error
// is that the data is no JSON, or what the provider reports in it.
func decode(data []byte, into any) error {
	var problem struct {
		Error json.RawMessage `json:"error"`
	}
	err := json.Unmarshal(data, &problem)
	if err == nil && len(problem.Error) > 0 && string(problem.Error) != "null" {
		return model.StreamFailure(data)
	}
	if err = json.Unmarshal(data, into); err != nil {
		if _, other := errors.AsType[*json.UnmarshalTypeError](err); other {
			return nil
		}
	}
	return err
}
