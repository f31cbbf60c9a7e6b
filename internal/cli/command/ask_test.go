package command

import (
	"testing"

	"aloft/internal/client"
)

func TestReadAnswer(t *testing.T) {
	for line, want := range map[string]client.Answer{
		"y": {Decision: client.AllowOnce}, " Yes ": {Decision: client.AllowOnce}, "a": {Decision: client.AllowAgent}, "always": {Decision: client.AllowAlways},
		"n": {Decision: client.Deny}, "n use make test": {Decision: client.Deny, Message: "use make test"}, "deny": {Decision: client.Deny},
		"": {}, "yes please": {Decision: client.AllowOnce}, "maybe": {},
	} {
		got, ok := readAnswer(client.Approval{}, line)
		if ok != (want.Decision != "" && line != "yes please") || ok && (got.Decision != want.Decision || got.Message != want.Message) {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
	q := client.Approval{Questions: []client.Question{{ID: "db", Options: []client.Option{{ID: "pg", Label: "PostgreSQL"}}}}}
	for line, want := range map[string]string{"1": "pg", "n": "", "-": ""} {
		got, ok := readAnswer(q, line)
		if !ok || (got.Decision == client.Deny) != (line == "-") || want != "" && got.Answers[0].OptionIDs[0] != want {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
}
