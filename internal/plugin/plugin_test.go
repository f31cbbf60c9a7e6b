package plugin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestParse checks which manifests are accepted.
func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, want, err string
		complaints      int
	}{
		"Full":      {`{"name":"acme-tools","version":"1.0.0","author":{"name":"x"}}`, "acme-tools", "", 0},
		"Moved":     {`{"name":"a","hooks":"./../../x.json","skills":["/etc"]}`, "a", "", 2},
		"NoName":    {`{}`, "", "has no valid name", 0},
		"WrongName": {`{"name":"../x"}`, "", "has no valid name", 0},
		"NameType":  {`{"name":{"a":1}}`, "", "has no valid name", 0},
		"NoObject":  {`[]`, "", "is not a JSON object", 0},
		"NoJSON":    {`x`, "", "is not a JSON object", 0},
		"Long":      {`{"name":"a","x":"` + strings.Repeat("x", MaxManifest) + `"}`, "", "has more than", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, complaints, err := Parse([]byte(c.text))
			if got != c.want || len(complaints) != c.complaints || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q, %q, %v", got, complaints, err)
			}
		})
	}
}

// TestRoots checks which folders are plugins.
func TestRoots(t *testing.T) {
	t.Parallel()
	files := []string{
		".aloft/plugins/b/.cursor-plugin/plugin.json", ".cursor/plugins/z/.cursor-plugin/plugin.json", ".cursor/plugins/a/.cursor-plugin/plugin.json",
		".cursor-plugin/plugin.json", ".cursor/plugins/.cursor-plugin/plugin.json", ".cursor/plugins/a/.cursor/plugins/c/.cursor-plugin/plugin.json",
		"web/.cursor/plugins/d/.cursor-plugin/plugin.json", ".cursor/plugins/e/plugin.json",
	}
	if got, want := Roots(files), []string{".cursor/plugins/a", ".cursor/plugins/z", ".aloft/plugins/b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	files = nil
	for i := range Max + 5 {
		files = append(files, fmt.Sprintf(".cursor/plugins/%d/%s", i, Manifest))
	}
	if n := len(Roots(files)); n != Max {
		t.Errorf("%d plugins", n)
	}
}
