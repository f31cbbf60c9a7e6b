package client

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// PlanTool is the tool name of an [Approval] that asks a person to approve a plan.
const PlanTool = "CreatePlan"

// PullRequestTool is the tool name of an [Approval] that asks to open or to change a
// pull request.
const PullRequestTool = "PrManagement"

// A Question is a question of an agent.
type Question struct {
	ID            string   `json:"id"`
	Prompt        string   `json:"prompt"`
	Options       []Option `json:"options"`
	AllowMultiple bool     `json:"allowMultiple,omitempty"`
}

// An Option is an answer that a question offers.
type Option struct {
	ID    string `json:"id"`
	Label string `json:"label"`
}

// A Reply is the answer to one question.
type Reply struct {
	QuestionID string   `json:"questionId"`
	OptionIDs  []string `json:"optionIds,omitempty"`
	Text       string   `json:"text,omitempty"`
}

// Answer parses typed answers: ID=WHAT for each question, or WHAT alone if
// there is only one. WHAT is the number (from 1), the id or the label of an
// option, or several of these separated by commas, or free text.
func (q Approval) Answer(typed ...string) (Answer, error) {
	in := Answer{Decision: Answered}
	for _, t := range typed {
		id, what, named := strings.Cut(t, "=")
		i := slices.IndexFunc(q.Questions, func(one Question) bool { return named && one.ID == strings.TrimSpace(id) })
		if i < 0 && len(q.Questions) == 1 {
			i, what = 0, t
		}
		if i < 0 {
			return in, fmt.Errorf("%q does not name its question: write %s=…", t, q.Questions[0].ID)
		}
		one := q.Questions[i]
		if slices.ContainsFunc(in.Answers, func(r Reply) bool { return r.QuestionID == one.ID }) {
			return in, fmt.Errorf("%s is answered twice: separate several options by commas", one.ID)
		}
		in.Answers = append(in.Answers, one.reply(strings.TrimSpace(what)))
	}
	return in, nil
}

func (q Question) reply(what string) Reply {
	var chosen []string
	for _, part := range append([]string{what}, strings.Split(what, ",")...) {
		part = strings.TrimSpace(part)
		i := slices.IndexFunc(q.Options, func(o Option) bool { return o.ID == part || strings.EqualFold(o.Label, part) })
		if n, err := strconv.Atoi(part); i < 0 && err == nil && n > 0 && n <= len(q.Options) {
			i = n - 1
		}
		switch {
		case i < 0 && part == what: // the text is not an option as a whole: try its parts
		case i < 0:
			return Reply{QuestionID: q.ID, Text: what}
		case part == what:
			return Reply{QuestionID: q.ID, OptionIDs: []string{q.Options[i].ID}}
		case !slices.Contains(chosen, q.Options[i].ID):
			chosen = append(chosen, q.Options[i].ID)
		}
	}
	if len(chosen) == 0 || len(chosen) > 1 && !q.AllowMultiple {
		return Reply{QuestionID: q.ID, Text: what}
	}
	return Reply{QuestionID: q.ID, OptionIDs: chosen}
}

// Lines formats the questions and their options.
func (q Approval) Lines() []string {
	var out []string
	for _, one := range q.Questions {
		prompt := one.Prompt
		if len(q.Questions) > 1 {
			prompt = one.ID + ": " + prompt
		}
		if one.AllowMultiple {
			prompt += " (several)"
		}
		if prompt != q.Subject { // which is shown already
			out = append(out, strings.Split(prompt, "\n")...)
		}
		for i, o := range one.Options {
			out = append(out, fmt.Sprintf("  %d  %s", i+1, strings.ReplaceAll(o.Label, "\n", " ")))
		}
	}
	return out
}
