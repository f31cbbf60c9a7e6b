package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/cli"
)

func TestExitCodesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(string(doc), -1) {
		n, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	want := []int{cli.OK, cli.Failure, cli.Usage, cli.RunFailed, cli.NotFound, cli.Denied, cli.Unreachable, cli.Interrupted}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes differ (-program +page):\n%s", diff)
	}
}
