package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/fault"
)

// Parameters that a request can set.
const (
	ParamThinking = "thinking" // true or false
	ParamEffort   = "effort"
	ParamContext  = "context" // 200k or 1m
)

// Values of [ParamContext].
const (
	ShortContext = "200k"
	LongContext  = "1m"
)

// Param is a parameter of a model.
type Param struct {
	ID      string
	Values  []string // values that a request can set
	Default string   // "" leaves it to the provider
}

// DisplayName returns the parameter's name for people.
func (p Param) DisplayName() string {
	switch p.ID {
	case ParamThinking:
		return "Thinking"
	case ParamEffort:
		return "Effort"
	case ParamContext:
		return "Context window"
	}
	return p.ID
}

// DisplayValue returns the name of a value for people.
func (p Param) DisplayValue(value string) string {
	switch {
	case value == "true":
		return "On"
	case value == "false":
		return "Off"
	case p.ID == ParamContext:
		return strings.ToUpper(value) + " tokens"
	case value == "xhigh":
		return "Extra high"
	}
	return strings.ToUpper(value[:1]) + value[1:]
}

// Setting is a parameter with its value.
type Setting struct{ ID, Value string }

// A Ref is a reference to a configured model with settings for its parameters.
type Ref struct {
	ID       string
	Settings []Setting
}

// String returns the id, followed by the settings sorted by id:
// opus[context=1m,effort=high]. [ParseRef] parses it.
func (r Ref) String() string {
	if len(r.Settings) == 0 {
		return r.ID
	}
	var set []string
	for _, s := range r.Settings {
		set = append(set, s.ID+"="+s.Value)
	}
	slices.Sort(set)
	return r.ID + "[" + strings.Join(set, ",") + "]"
}

// ParseRef parses the result of [Ref.String]. Text in another form is taken as
// an id.
func ParseRef(text string) Ref {
	id, list, ok := strings.Cut(text, "[")
	list, closed := strings.CutSuffix(list, "]")
	if !ok || !closed {
		return Ref{ID: text}
	}
	r := Ref{ID: id}
	for set := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(set), "=")
		if !ok {
			return Ref{ID: text}
		}
		r.Settings = append(r.Settings, Setting{name, value})
	}
	return r
}

// Check returns a fault for the first setting that the model does not support.
// The fault lists the supported settings, and names the field params[n] of the
// model reference.
func (i Info) Check(settings []Setting) error {
	for n, s := range settings {
		at := fmt.Sprintf("params[%d].", n)
		k := slices.IndexFunc(i.Params, func(p Param) bool { return p.ID == s.ID })
		switch {
		case k < 0 && len(i.Params) == 0:
			return fault.Invalid("the model %s has no parameters", i.ID).At(at + "id").Hint("leave params out")
		case k < 0:
			var ids []string
			for _, p := range i.Params {
				ids = append(ids, p.ID)
			}
			return fault.Invalid("the model %s has no parameter %.100q", i.ID, s.ID).At(at+"id").Hint("use one of: %s", strings.Join(ids, ", "))
		case !slices.Contains(i.Params[k].Values, s.Value):
			return fault.Invalid("%.100q is not a value of %s of the model %s", s.Value, s.ID, i.ID).At(at+"value").Hint("use one of: %s", strings.Join(i.Params[k].Values, ", "))
		case slices.ContainsFunc(settings[:n], func(o Setting) bool { return o.ID == s.ID }):
			return fault.Invalid("sets %s twice", s.ID).At(at + "id")
		}
	}
	return nil
}

// Value returns the parameter's value from the settings, or else the model's
// default. "" leaves it to the provider.
func (i Info) Value(settings []Setting, id string) string {
	for _, s := range settings {
		if s.ID == id {
			return s.Value
		}
	}
	for _, p := range i.Params {
		if p.ID == id {
			return p.Default
		}
	}
	return ""
}

// Name returns the reference to the model, as written by [Ref.String].
func (i Info) Name() string { return cmp.Or(i.Ref, i.ID) }

// Mode says how a model reasons before it answers.
type Mode string

// The modes of reasoning.
const (
	NoThinking  Mode = ""         // the model does not reason, or its API does not tell
	Budgeted    Mode = "budget"   // reasons with a token budget, if the request sets one
	Adaptive    Mode = "adaptive" // reasons as much as necessary, if the request enables reasoning
	ByDefault   Mode = "default"  // reasons as much as necessary, unless the request disables reasoning
	AlwaysThink Mode = "always"   // always reasons as much as necessary
)

// Traits are the options that a provider's API has for a model.
type Traits struct {
	Provider string   // the provider whose API has these options
	Thinking Mode     //
	Effort   []string // levels, lowest first
	Long     bool     // the context window can be 1m tokens on request
	LongBeta bool     // the 1m window requires a beta header
	Schema   bool     // replies can be made to match a JSON schema
}

// Offered returns the parameters that a request can set for a model with these
// traits. If the provider is not the one that the traits describe, it returns
// none.
func (t Traits) Offered(provider string) (params []Param) {
	if t.Provider != provider {
		return nil
	}
	switch t.Thinking {
	case Budgeted, Adaptive, ByDefault:
		params = append(params, Param{ID: ParamThinking, Values: []string{"true", "false"}, Default: "true"})
	}
	if len(t.Effort) > 0 {
		params = append(params, Param{ID: ParamEffort, Values: t.Effort})
	}
	if t.Long {
		params = append(params, Param{ID: ParamContext, Values: []string{ShortContext, LongContext}, Default: ShortContext})
	}
	return params
}
