package openai

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"aloft/internal/control/model"
)

// maxLine is the maximum length of a line in a stream, in bytes; [model.Wire]
// has a lower limit.
const maxLine = 32 << 20

// A decoder converts the events of one stream.
type decoder interface {
	// event converts one event. It returns any number of our events, or the
	// error that the provider reports in it.
	event(data []byte) ([]model.Event, error)
	// err returns an error if the reply has exceeded a limit.
	err() error
	// end returns the complete reply if the stream contained one.
	end() (model.Event, bool)
}

// post sends the request, and yields the events of the stream until its end.
// body contains the marks of encoded.
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
		err = cmp.Or(err, d.err())
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

// errDone stops reading a stream.
var errDone = errors.New("the reply is whole, or nobody reads on")

// stream sends body and passes the data of each event to take, until take
// returns false or the stream ends.
func (c client) stream(ctx context.Context, path string, body any, take func([]byte) (bool, error)) error {
	text, err := model.JSON(body)
	if err != nil {
		return err
	}
	resp, err := c.send(ctx, path, "application/json", "text/event-stream, application/json", text)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
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

// decode parses an event. It ignores fields with an unexpected type, because
// servers other than OpenAI's put arbitrary values into fields that clients
// ignore. It returns an error if the data is not JSON or reports an error.
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
