package review

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/text"
)

//go:embed classifier.md
var classifierWords string

// Verdicts of the classifier.
const (
	VerdictAllow = "allow"
	VerdictBlock = "block" // the agent must find another way
	VerdictAsk   = "ask"
)

// verdictSchema is the format of the classifier's reply.
const verdictSchema = `{"type":"object","properties":{"verdict":{"type":"string","enum":["allow","block","ask"]},"reason":{"type":"string"}},"required":["verdict","reason"],"additionalProperties":false}`

// Limits of a classification.
const (
	classifyWithin = 30 * time.Second
	maxVerdict     = 1024  // tokens of the classifier's reply
	maxShown       = 8000  // bytes shown at the beginning and at the end of a call's arguments
	maxReason      = 1000  // bytes of the classifier's reason
	maxTask        = 16000 // bytes of the user's prompts
)

// question is the input of the classifier: the call and the user's prompts. It
// contains no tool output, which could be forged.
type question struct {
	Task  string          `json:"task"` // the user's prompts
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"arguments"`
	Why   string          `json:"not_allowed_by_rule_because"`
	Allow []string        `json:"allow_instructions"`
	Block []string        `json:"block_instructions"`
}

// Classify asks the classifier about a call. It never fails: if there is no
// verdict for any reason, it returns [VerdictAsk].
func (r *Reviewer) Classify(ctx context.Context, s *agent.State, c conversation.ToolCall, v Verdict) agent.Classified {
	start := time.Now()
	out := agent.Classified{CallID: c.ID, Verdict: VerdictAsk}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.ClassifyWithin, classifyWithin))
	defer cancel()
	err := r.classify(ctx, s, c, v, &out)
	if err != nil {
		out.Verdict, out.Failure = VerdictAsk, cut(err.Error(), maxReason)
	}
	out.DurationMS = time.Since(start).Milliseconds()
	return out
}

func (r *Reviewer) classify(ctx context.Context, s *agent.State, c conversation.ToolCall, v Verdict, out *agent.Classified) error {
	if r.Model == nil {
		return errors.New("there is no classifier")
	}
	m, info, err := r.Model(ctx, s.Agent)
	if err != nil {
		return err
	}
	out.Model = info.ID
	p, err := r.permissions(ctx, s.Agent)
	if err != nil {
		return err
	}
	ask, err := json.MarshalIndent(question{
		Task: taskOf(s), Tool: c.Name, Args: shorten(c.Args), Why: v.Why,
		Allow: append([]string{}, p.AllowInstructions...), Block: append([]string{}, p.BlockInstructions...),
	}, "", "  ")
	if err != nil {
		return err
	}
	reply, err := complete(ctx, m, model.Request{
		System: classifierWords, Messages: []conversation.Message{conversation.Text(conversation.User, string(ask))}, MaxTokens: maxVerdict, Schema: json.RawMessage(verdictSchema),
	})
	if err != nil {
		return err
	}
	out.Usage = info.Price.Of(reply.Usage)
	out.Verdict, out.Reason, err = readVerdict(reply.Message.PlainText())
	return err
}

// taskOf returns the user's prompts.
func taskOf(s *agent.State) string {
	return cut(strings.Join(s.Asked, "\n\n"), maxTask)
}

// complete sends one request and returns the whole reply.
func complete(ctx context.Context, m model.Model, req model.Request) (*model.Reply, error) {
	for e, err := range m.Stream(ctx, req) {
		if err != nil {
			return nil, err
		}
		if e.Done != nil {
			return e.Done, nil
		}
	}
	return nil, errors.New("the classifier's reply is incomplete")
}

// readVerdict parses the classifier's reply, which must be a single JSON object
// without surrounding text.
func readVerdict(text string) (verdict, reason string, err error) {
	var v struct {
		Verdict string `json:"verdict"`
		Reason  string `json:"reason"`
	}
	if model.ReadObject(text, &v) != nil {
		return "", "", errors.New("the classifier's reply is not a verdict")
	}
	switch v.Verdict {
	case VerdictAllow, VerdictBlock, VerdictAsk:
		return v.Verdict, cut(v.Reason, maxReason), nil
	}
	return "", "", fmt.Errorf("the classifier's verdict is %q", cut(v.Verdict, 40))
}

// shorten returns the arguments with the middle of very long ones removed.
func shorten(args json.RawMessage) json.RawMessage {
	if len(args) <= 2*maxShown && json.Valid(args) {
		return args
	}
	text := string(args)
	if len(text) > 2*maxShown {
		text = text[:maxShown] + " … " + text[len(text)-maxShown:]
	}
	out, err := json.Marshal(strings.ToValidUTF8(text, "�"))
	if err != nil {
		return json.RawMessage(`""`) // a string always encodes
	}
	return out
}

func cut(s string, limit int) string { return text.Abbreviate(s, limit, " …") }
