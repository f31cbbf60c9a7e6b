package approvals

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"aloft/internal/agent"
	"aloft/internal/fault"
)

type questionJSON struct {
	_             struct{}     `json:"-" additionalProperties:"true"`
	ID            string       `json:"id"`
	Prompt        string       `json:"prompt"`
	Options       []optionJSON `json:"options" nullable:"false" doc:"empty for free-text answers"`
	AllowMultiple bool         `json:"allowMultiple,omitempty" doc:"several options may be chosen"`
}

type optionJSON struct {
	_     struct{} `json:"-" additionalProperties:"true"`
	ID    string   `json:"id"`
	Label string   `json:"label"`
}

type answerJSON struct {
	_          struct{} `json:"-" additionalProperties:"true"`
	QuestionID string   `json:"questionId"`
	OptionIDs  []string `json:"optionIds,omitempty" maxItems:"20" nullable:"false"`
	Text       string   `json:"text,omitempty" maxLength:"4000" doc:"free text, instead of or in addition to options"`
}

func questionsOf(questions []agent.Question) []questionJSON {
	var out []questionJSON
	for _, q := range questions {
		one := questionJSON{ID: q.ID, Prompt: q.Prompt, Options: []optionJSON{}, AllowMultiple: q.AllowMultiple}
		for _, o := range q.Options {
			one.Options = append(one.Options, optionJSON{ID: o.ID, Label: o.Label})
		}
		out = append(out, one)
	}
	return out
}

func (in *answerRequestJSON) answers() []agent.Answer {
	var out []agent.Answer
	for _, a := range in.Answers {
		out = append(out, agent.Answer{QuestionID: a.QuestionID, OptionIDs: a.OptionIDs, Text: strings.TrimSpace(a.Text)})
	}
	return out
}

// checkAnswer returns an error unless the answer matches the questions that were
// asked.
func checkAnswer(asked agent.Approval, said *agent.ApprovalAnswered) error {
	switch {
	case len(said.Answers) > 0 && said.Decision != agent.Answered:
		return fault.Invalid("require the decision answer").At("answers")
	case asked.Tool != agent.QuestionTool && said.Decision == agent.Answered:
		return fault.Invalid("is only for questions; allow or deny this request").At("decision")
	case asked.Tool != agent.QuestionTool, said.Decision == agent.Deny:
		return nil
	case said.Decision != agent.Answered:
		return fault.Invalid("must be answer, or deny to leave it to the agent").At("decision")
	case len(said.Answers) == 0 && said.Message == "":
		return fault.Invalid("are required, or a message").At("answers")
	}
	for i, a := range said.Answers {
		at := fmt.Sprintf("answers[%d].", i)
		n := slices.IndexFunc(asked.Questions, func(q agent.Question) bool { return q.ID == a.QuestionID })
		if n < 0 {
			return fault.Invalid("%s is not one of the questions", fault.Quoted(a.QuestionID)).At(at + "questionId")
		}
		q := asked.Questions[n]
		switch {
		case slices.ContainsFunc(said.Answers[:i], func(b agent.Answer) bool { return b.QuestionID == a.QuestionID }):
			return fault.Invalid("%s is answered twice", fault.Quoted(a.QuestionID)).At(at + "questionId")
		case len(a.OptionIDs) == 0 && a.Text == "":
			return fault.Invalid("choose one, or give text").At(at + "optionIds")
		case len(a.OptionIDs) > 1 && !q.AllowMultiple:
			return fault.Invalid("has %d options; this question accepts one", len(a.OptionIDs)).At(at + "optionIds")
		case utf8.RuneCountInString(a.Text) > maxAnswerWords:
			return fault.Invalid("must have at most %d characters", maxAnswerWords).At(at + "text")
		}
		for j, id := range a.OptionIDs {
			if !slices.ContainsFunc(q.Options, func(o agent.Option) bool { return o.ID == id }) || slices.Contains(a.OptionIDs[:j], id) {
				return fault.Invalid("%s is not an option of this question, or a duplicate", fault.Quoted(id)).At(at + "optionIds")
			}
		}
	}
	return nil
}
