package main

import (
	"flag"
	"os"
	"testing"

	"aloft/internal/tool"
)

var update = flag.Bool("update", false, "rewrite the page")

func TestReferenceIsOfTheCatalogue(t *testing.T) {
	const file = "../../docs/reference/tools.md"
	got, err := reference(tool.Catalogue())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is stale: run make generate", file)
	}
}
