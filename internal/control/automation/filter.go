package automation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"google.golang.org/protobuf/types/known/structpb"
)

// Limits of expressions. Events are written by anybody, so an expression must
// end soon whatever the event is.
const (
	maxExpression = 2000 // characters
	maxDepth      = 50   // of nesting
	maxCost       = 50_000
	evaluateFor   = time.Second // in case the cost is wrong
)

// expressions returns the environment in which expressions are compiled. event
// and inputs are maps, whose values have no fixed type.
var expressions = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("event", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("inputs", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("automation", cel.MapType(cel.StringType, cel.DynType)),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxDepth),
	)
})

// An expression is compiled and safe for concurrent use.
type expression struct {
	program cel.Program
	text    string
}

// compile compiles an expression in CEL.
func compile(text string) (e expression, result *cel.Type, err error) {
	defer func() { // the parser is another project's code
		if p := recover(); p != nil {
			err = fmt.Errorf("%q is not a valid expression", text)
		}
	}()
	if len(text) > 4*maxExpression {
		return e, nil, fmt.Errorf("the expression has %d bytes; the limit is %d characters", len(text), maxExpression)
	}
	env, err := expressions()
	if err != nil {
		return e, nil, err
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return e, nil, fmt.Errorf("%q is not a valid expression: %s", text, firstLine(err))
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(100), cel.EvalOptions(cel.OptTrackCost))
	if err != nil {
		return e, nil, fmt.Errorf("%q is not a valid expression: %w", text, err)
	}
	return expression{program, text}, ast.OutputType(), nil
}

// firstLine returns the first line of a compiler's error, without the position.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimPrefix(line, "ERROR: <input>:")
}

// values are what an expression can use.
type values struct {
	event, inputs, automation map[string]any
}

// evaluate returns the value of the expression. The error is for the author of
// the expression.
func (e expression) evaluate(ctx context.Context, v values) (out ref.Val, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%q cannot be evaluated", e.text)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, evaluateFor)
	defer cancel()
	out, _, err = e.program.ContextEval(ctx, map[string]any{"event": orEmpty(v.event), "inputs": orEmpty(v.inputs), "automation": orEmpty(v.automation)})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%q takes too long for this event", e.text)
	case err != nil && strings.Contains(err.Error(), "cost limit exceeded"):
		return nil, fmt.Errorf("%q costs too much for this event", e.text)
	case err != nil:
		return nil, fmt.Errorf("%q: %s", e.text, firstLine(err))
	}
	return out, nil
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// compileFilter compiles the filter of an event. An empty filter accepts all
// events.
func compileFilter(text string) (expression, error) {
	if strings.TrimSpace(text) == "" {
		text = "true"
	}
	e, result, err := compile(text)
	if err == nil && !result.IsExactType(cel.BoolType) && !result.IsExactType(cel.DynType) {
		err = fmt.Errorf("%q is a %s, not true or false", text, result)
	}
	return e, err
}

// accepts reports whether the filter accepts the event.
func (e expression) accepts(ctx context.Context, v values) (bool, error) {
	out, err := e.evaluate(ctx, v)
	if err != nil {
		return false, err
	}
	ok, is := out.Value().(bool)
	if !is {
		return false, fmt.Errorf("%q is a %s for this event, not true or false", e.text, out.Type().TypeName())
	}
	return ok, nil
}

// textOf returns a value as text for a prompt: a string as it is, and other
// values as JSON.
func textOf(v ref.Val) (string, error) {
	if s, ok := v.Value().(string); ok {
		return s, nil
	}
	native, err := v.ConvertToNative(types.JSONValueType)
	if err != nil {
		return "", fmt.Errorf("a %s cannot be written as text", v.Type().TypeName())
	}
	plain, ok := native.(*structpb.Value)
	if !ok {
		return "", fmt.Errorf("a %s cannot be written as text", v.Type().TypeName())
	}
	text, err := json.Marshal(plain.AsInterface())
	return string(text), err
}
