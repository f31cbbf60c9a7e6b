package main

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestEnvGuideKnowsTheVerbs checks that the guide names each verb of `aloft
// env`, and no other.
func TestEnvGuideKnowsTheVerbs(t *testing.T) {
	text, err := os.ReadFile("../../docs/guide/environments.md")
	if err != nil {
		t.Fatal(err)
	}
	var named, verbs []string
	for _, m := range regexp.MustCompile(`aloft env ([a-z]+)`).FindAllStringSubmatch(string(text), -1) {
		named = append(named, m[1])
	}
	env, _, err := newRootCommand(newApp(noEnv)).Find([]string{"env"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range env.Commands() {
		verbs = append(verbs, c.Name())
		if !slices.Contains(named, c.Name()) {
			t.Errorf("the guide does not say what `aloft env %s` is for", c.Name())
		}
	}
	for _, name := range named {
		if !slices.Contains(verbs, name) {
			t.Errorf("the guide names `aloft env %s`, which there is not", name)
		}
	}
}
