package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// Limits for questions to a person: counts, runes and bytes.
const (
	maxQuestions = 10
	maxOptions   = 20
	maxPrompt    = 4000
	maxLabel     = 500
	maxPlan      = 32000
	maxID        = 200
)

// Question returns the approval request for a call of AskQuestion or CreatePlan.
// The error is for the model.
func Question(c conversation.ToolCall) (agent.Approval, error) {
	d := json.NewDecoder(bytes.NewReader(c.Args))
	d.DisallowUnknownFields()
	if c.Name == agent.PlanTool {
		return plan(d)
	}
	var in struct {
		Title     string
		Questions []struct {
			ID, Prompt    string
			Options       []agent.Option
			AllowMultiple bool `json:"allow_multiple"`
		}
	}
	if err := d.Decode(&in); err != nil {
		return agent.Approval{}, fmt.Errorf("the arguments do not match the schema: %w", err)
	}
	q := agent.Approval{Subject: in.Title, Why: "it waits for your answer"}
	if utf8.RuneCountInString(in.Title) > maxLabel {
		return q, fmt.Errorf("title is longer than %d characters", maxLabel)
	}
	if n := len(in.Questions); n < 1 || n > maxQuestions {
		return q, fmt.Errorf("questions: has %d entries; must have 1 to %d", n, maxQuestions)
	}
	seen := map[string]bool{}
	for i, one := range in.Questions {
		at := fmt.Sprintf("questions[%d]", i)
		switch {
		case one.ID == "" || strings.TrimSpace(one.Prompt) == "":
			return q, fmt.Errorf("%s: id or prompt is missing", at)
		case len(one.ID) > maxID:
			return q, fmt.Errorf("%s.id is longer than %d bytes", at, maxID)
		case seen[one.ID]:
			return q, fmt.Errorf("%s.id: duplicate %q", at, one.ID)
		case utf8.RuneCountInString(one.Prompt) > maxPrompt:
			return q, fmt.Errorf("%s.prompt is longer than %d characters", at, maxPrompt)
		case len(one.Options) > maxOptions:
			return q, fmt.Errorf("%s: has %d options; the limit is %d", at, len(one.Options), maxOptions)
		}
		seen[one.ID] = true
		for j, o := range one.Options {
			if o.ID == "" || len(o.ID) > maxID || strings.TrimSpace(o.Label) == "" || utf8.RuneCountInString(o.Label) > maxLabel {
				return q, fmt.Errorf("%s.options[%d]: id (at most %d bytes) and label (at most %d characters) are required", at, j, maxID, maxLabel)
			}
			if slices.ContainsFunc(one.Options[:j], func(other agent.Option) bool { return other.ID == o.ID }) {
				return q, fmt.Errorf("%s.options[%d].id: duplicate %q", at, j, o.ID)
			}
		}
		q.Questions = append(q.Questions, agent.Question(one))
	}
	if q.Subject == "" {
		q.Subject = in.Questions[0].Prompt
	}
	return q, nil
}

func plan(d *json.Decoder) (agent.Approval, error) {
	var in struct {
		Name, Overview, Plan string
		Todos                []agent.Todo
	}
	if err := d.Decode(&in); err != nil {
		return agent.Approval{}, fmt.Errorf("the arguments do not match the schema: %w", err)
	}
	q := agent.Approval{Subject: in.Name, Reason: in.Overview, Why: "it waits until you have decided on its plan"}
	if in.Name == "" || strings.TrimSpace(in.Plan) == "" {
		return q, fmt.Errorf("name or plan is missing")
	}
	if utf8.RuneCountInString(in.Name) > maxLabel || utf8.RuneCountInString(in.Overview) > maxPrompt {
		return q, fmt.Errorf("name must have at most %d characters and overview at most %d: put the rest in plan", maxLabel, maxPrompt)
	}
	var text strings.Builder
	text.WriteString(strings.TrimSpace(in.Plan))
	for i, t := range in.Todos {
		if i == 0 {
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, "\n- [ ] %s", t.Content)
	}
	if q.Change = text.String(); len(q.Change) > maxPlan {
		return q, fmt.Errorf("the plan has %d bytes, more than %d: leave out what is obvious", len(q.Change), maxPlan)
	}
	return q, nil
}

// Answer returns the result of a call that was a question to a person.
func Answer(q agent.Approval, answer agent.ApprovalAnswered) tool.Result {
	output := map[string]any{"planId": q.ID}
	text := "The user approved the plan: carry it out now."
	switch {
	case q.Tool == agent.PlanTool && answer.Decision.Allows():
	case q.Tool == agent.PlanTool && answer.UserID == 0:
		return tool.Failed("Nobody answered in time about the plan: stop here. The user can continue later.")
	case q.Tool == agent.PlanTool && answer.Message == "":
		return tool.Failed("The user did not approve the plan.")
	case q.Tool == agent.PlanTool:
		return tool.Failed("The user did not approve the plan, and says: %s", answer.Message)
	default:
		output = map[string]any{"answers": append([]agent.Answer{}, answer.Answers...)}
		text = answers(q, answer)
	}
	raw, err := json.Marshal(map[string]any{"success": output})
	if err != nil {
		return tool.Failed("%v", err) // marshaling a string cannot fail
	}
	return tool.Result{Text: text, Output: raw}
}

const decide = "decide yourself, and say in the end what you decided"

func answers(q agent.Approval, answer agent.ApprovalAnswered) string {
	switch {
	case answer.Decision == agent.Answered:
	case answer.UserID == 0:
		return "Nobody answered in time: " + decide + "."
	case answer.Message != "":
		return "The user does not answer, and says: " + answer.Message
	default:
		return "The user leaves it to you: " + decide + "."
	}
	var b strings.Builder
	for _, one := range q.Questions {
		fmt.Fprintf(&b, "%s\n", one.Prompt)
		i := slices.IndexFunc(answer.Answers, func(a agent.Answer) bool { return a.QuestionID == one.ID })
		if i < 0 {
			if answer.Message == "" {
				b.WriteString("  (no answer: " + decide + ")\n")
			}
			continue
		}
		for _, o := range one.Options {
			if slices.Contains(answer.Answers[i].OptionIDs, o.ID) {
				fmt.Fprintf(&b, "- %s: %s\n", o.ID, o.Label)
			}
		}
		if words := answer.Answers[i].Text; words != "" {
			fmt.Fprintf(&b, "In the user's words: %s\n", words)
		}
	}
	if answer.Message != "" {
		fmt.Fprintf(&b, "The user says: %s\n", answer.Message)
	}
	return b.String()
}
