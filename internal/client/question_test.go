package client

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTypedAnswers(t *testing.T) {
	one := Approval{Questions: []Question{{ID: "db", Prompt: "Which?", Options: []Option{{"pg", "PostgreSQL"}, {"lite", "SQLite, for now"}}}}}
	two := Approval{Questions: []Question{{ID: "os", AllowMultiple: true, Options: []Option{{"l", "Linux"}, {"m", "macOS"}}}, {ID: "name"}}}
	for _, c := range []struct {
		q     Approval
		typed []string
		want  []Reply
	}{
		{one, []string{"2"}, []Reply{{QuestionID: "db", OptionIDs: []string{"lite"}}}},
		{one, []string{"pg"}, []Reply{{QuestionID: "db", OptionIDs: []string{"pg"}}}},
		{one, []string{"sqlite, for now"}, []Reply{{QuestionID: "db", OptionIDs: []string{"lite"}}}},
		{one, []string{"db=postgresql"}, []Reply{{QuestionID: "db", OptionIDs: []string{"pg"}}}},
		{one, []string{"1,2"}, []Reply{{QuestionID: "db", Text: "1,2"}}},
		{one, []string{"3"}, []Reply{{QuestionID: "db", Text: "3"}}},
		{one, []string{"x=y, 1"}, []Reply{{QuestionID: "db", Text: "x=y, 1"}}},
		{two, []string{"os=1,m,1", "name=the store"}, []Reply{{QuestionID: "os", OptionIDs: []string{"l", "m"}}, {QuestionID: "name", Text: "the store"}}},
	} {
		got, err := c.q.Answer(c.typed...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Answer{Decision: Answered, Answers: c.want}, got); diff != "" {
			t.Errorf("%q: %s", c.typed, diff)
		}
	}
	for _, typed := range [][]string{{"Linux"}, {"no=1"}, {"os=1", "os=2"}} {
		if got, err := two.Answer(typed...); err == nil {
			t.Errorf("%q: %+v", typed, got)
		}
	}
}

// TestQuestionIsShownOnce checks that a question which is the subject of its request is
// not repeated above its options.
func TestQuestionIsShownOnce(t *testing.T) {
	q := Approval{Subject: "Which?", Questions: []Question{{ID: "db", Prompt: "Which?", Options: []Option{{"pg", "PostgreSQL"}}}}}
	if diff := cmp.Diff([]string{"  1  PostgreSQL"}, q.Lines()); diff != "" {
		t.Error(diff)
	}
	q.Subject = "The store"
	if diff := cmp.Diff([]string{"Which?", "  1  PostgreSQL"}, q.Lines()); diff != "" {
		t.Error(diff)
	}
}
