package scripted

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/goccy/go-yaml"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// File is a script file. The package comment describes the format.
type File struct {
	Scripts []Script `yaml:"scripts"`
}

// Script lists the replies of the model to matching prompts.
type Script struct {
	Match  string `yaml:"match"`
	Repeat bool   `yaml:"repeat"`
	Turns  []Turn `yaml:"turns"`

	pattern pattern
}

// pattern is a regular expression; if it is empty, every prompt matches.
type pattern struct{ *regexp.Regexp }

func (p pattern) MatchString(s string) bool { return p.Regexp == nil || p.Regexp.MatchString(s) }

func (p pattern) FindStringSubmatch(s string) []string {
	if p.Regexp == nil {
		return nil
	}
	return p.Regexp.FindStringSubmatch(s)
}

// Turn is one reply.
type Turn struct {
	Thinking string             `yaml:"thinking"`
	Text     string             `yaml:"text"`
	Calls    []Call             `yaml:"calls"`
	Stop     model.Stop         `yaml:"stop"`
	Chunk    int                `yaml:"chunk"`
	Delay    Duration           `yaml:"delay"`
	Usage    conversation.Usage `yaml:"usage"`
	Fail     []Fail             `yaml:"fail"`
}

// Call is a tool call.
type Call struct {
	Tool string         `yaml:"tool"`
	Args map[string]any `yaml:"args"`
}

// Fail is a failure that occurs instead of a turn.
type Fail struct {
	Status      int      `yaml:"status"`
	Message     string   `yaml:"message"`
	RetryAfter  Duration `yaml:"retryAfter"`
	Cut         bool     `yaml:"cut"`
	Unreachable bool     `yaml:"unreachable"`
	Always      bool     `yaml:"always"`
}

// Duration is written as in Go: 20ms, 1.5s.
type Duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err == nil && v < 0 {
		err = fmt.Errorf("%s is negative", b)
	}
	*d = Duration(v)
	return err
}

func (f Fail) error() *model.Error {
	if f.Unreachable {
		return &model.Error{Reason: model.Unreachable, Message: "the script says that nothing listens"}
	}
	e := model.Failure(f.Status, nil, []byte(f.Message), time.Time{})
	e.RetryAfter = time.Duration(f.RetryAfter)
	return e
}

const maxFile = 4 << 20 // bytes of a script file

// Parse parses a script file. Its error names the line.
func Parse(data []byte) (*File, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("it is longer than %d MiB", maxFile>>20)
	}
	var f File
	d := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := d.Decode(&f); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, true))
	}
	if len(f.Scripts) == 0 {
		return nil, errors.New("scripts is empty")
	}
	for i := range f.Scripts {
		if err := f.Scripts[i].check(); err != nil {
			return nil, fmt.Errorf("scripts[%d]: %w", i, err)
		}
	}
	return &f, nil
}

func (s *Script) check() error {
	if s.Match != "" {
		re, err := regexp.Compile(s.Match)
		if err != nil {
			return fmt.Errorf("match: %w", err)
		}
		s.pattern.Regexp = re
	}
	if len(s.Turns) == 0 {
		return errors.New("turns is empty")
	}
	for i := range s.Turns {
		if err := s.Turns[i].check(); err != nil {
			return fmt.Errorf("turns[%d]: %w", i, err)
		}
	}
	return nil
}

var toolName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`)

func (t *Turn) check() error {
	switch t.Stop {
	case "", model.StopEnd, model.StopCalls, model.StopLength, model.StopRefusal:
	default:
		return fmt.Errorf("stop: invalid value %q: must be end, calls, length or refusal", t.Stop)
	}
	for _, text := range []string{t.Text, t.Thinking} {
		if err := checkTemplate(text); err != nil {
			return err
		}
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		if !toolName.MatchString(c.Tool) {
			return fmt.Errorf("calls[%d]: tool: %q is not the name of a tool", i, c.Tool)
		}
		if c.Args == nil {
			c.Args = map[string]any{}
		}
		args, err := checkArgs(c.Args)
		if err != nil {
			return fmt.Errorf("calls[%d]: args: %w", i, err)
		}
		c.Args = args.(map[string]any)
	}
	for i, f := range t.Fail {
		kinds := 0
		for _, is := range []bool{f.Status != 0, f.Cut, f.Unreachable} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			return fmt.Errorf("fail[%d]: give one of status, cut and unreachable", i)
		}
		if f.Status != 0 && (f.Status < http.StatusBadRequest || f.Status > 599) {
			return fmt.Errorf("fail[%d]: status: %d is not a failure", i, f.Status)
		}
	}
	return nil
}

// checkArgs converts a decoded value to one that JSON can represent.
func checkArgs(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return v, checkTemplate(v)
	case map[string]any:
		for k, e := range v {
			c, err := checkArgs(e)
			if err != nil {
				return nil, err
			}
			v[k] = c
		}
		return v, nil
	case []any:
		for i, e := range v {
			c, err := checkArgs(e)
			if err != nil {
				return nil, err
			}
			v[i] = c
		}
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%v cannot be encoded in JSON", v)
		}
		return v, nil
	case nil, bool, int, int64, uint64:
		return v, nil
	}
	return nil, fmt.Errorf("a value of type %T cannot be encoded in JSON", v)
}

func checkTemplate(text string) error {
	if !strings.Contains(text, "{{") {
		return nil
	}
	_, err := template.New("script").Funcs(position{}.funcs()).Parse(text)
	return err
}
