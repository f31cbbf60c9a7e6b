package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"aloft/internal/fault"
	"aloft/internal/text"
)

// ReadBody decodes the request's JSON into v. It ignores unknown fields,
// because a newer client may send them.
func ReadBody(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := WholeBody(w, r)
	if err != nil {
		return err
	}
	return Decode(data, v)
}

// WholeBody reads the request's body, which may have up to maxBody bytes.
func WholeBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, fault.Invalid("Content-Encoding %s is not supported", fault.Quoted(coding)).Named(CodeCoding).Hint("send it without Content-Encoding")
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(readWithin)) // fails only in tests, whose writers have no deadlines
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, fault.Invalid("the body is larger than %d KiB", e.Limit>>10).Named(CodeTooLong)
	}
	if err != nil {
		return nil, fault.Invalid("the body is incomplete").Because(err)
	}
	return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), nil // some clients send a byte order mark
}

// maxValues is the maximum number of JSON values of a body. A decoded value may take
// hundreds of times the memory of its JSON.
const maxValues = 50_000

// Decode is like [json.Unmarshal], but its errors name the field or position.
func Decode(data []byte, v any) error {
	if !new(text.Meter).Count(data, 0, maxValues) {
		return fault.Invalid("the body has more than %d JSON values", maxValues).Named(CodeTooLong)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return fault.Invalid("the body is empty; it must be a JSON object").Named("missing_body")
	}
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		line, column := position(data, e.Offset)
		return fault.Invalid("the body is not JSON: line %d, column %d: %v", line, column, e).Named("invalid_json")
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(e.Value, " ")
		if e.Field == "" {
			return fault.Invalid("the body must be %s, not %s", jsonWord(e.Type), kind)
		}
		line, column := position(data, e.Offset)
		return fault.Invalid("must be %s, not %s (line %d, column %d)", jsonWord(e.Type), kind, line, column).At(e.Field)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f // returned by a field's own UnmarshalJSON
	}
	return fault.Invalid("the body cannot be read: %v", err).Named("invalid_json")
}

// Strictly decodes an object, and rejects unknown fields.
func Strictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err != nil { // encoding/json has no type for this error
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return fault.Invalid("unknown field %s", name)
		}
	}
	return err
}

// position converts an offset to a line and a column, both counted from 1.
func position(data []byte, offset int64) (line, column int) {
	before := data[:min(int64(len(data)), max(offset-1, 0))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}

// jsonWord returns the name of a Go type in JSON's terms.
func jsonWord(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "an integer"
}
