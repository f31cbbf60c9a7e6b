package repo

import (
	"path"
	"strings"
	"testing"
)

// TestModuleFile checks that go.mod has three blocks of requirements: modules
// that programs import, modules that only tests and generators import, and
// indirect ones. "go get" may add to the wrong block.
func TestModuleFile(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "go.mod"), "\nrequire (\n")
	imported := map[string]bool{} // modules
	for _, dep := range importedByPrograms(t) {
		for dep != "." && !strings.Contains(rest, "\t"+dep+" v") {
			dep = path.Dir(dep)
		}
		imported[dep] = true
	}
	blocks := strings.Split(rest, "\nrequire (\n")
	if len(blocks) != 3 || !strings.HasSuffix(blocks[0], "// Imported by tests and generators only.") {
		t.Fatalf("go.mod has %d blocks of requirements; want one for programs, one with a comment for tests and generators, and one of indirect ones", len(blocks))
	}
	for i, block := range blocks {
		lines, _, _ := strings.Cut(block, "\n)")
		for line := range strings.Lines(lines) {
			module, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch indirect := strings.Contains(line, "// indirect"); {
			case indirect != (i == 2):
				t.Errorf("go.mod: %s is in the wrong block", module)
			case i == 0 && !imported[module]:
				t.Errorf("go.mod: no program imports %s: move it to the block for tests and generators", module)
			case i == 1 && imported[module]:
				t.Errorf("go.mod: a program imports %s: move it to the first block", module)
			}
		}
	}
}

// importedByPrograms returns the packages outside of this module that the
// programs import, directly or through packages of this module.
func importedByPrograms(t *testing.T) (theirs []string) {
	t.Helper()
	byPath := map[string]*pkg{}
	var queue []string
	for _, p := range packages(t) {
		byPath[p.path] = p
		if strings.HasPrefix(p.path, "cmd/") {
			queue = append(queue, p.path)
		}
	}
	seen := map[string]bool{}
	for len(queue) > 0 {
		p := byPath[queue[0]]
		queue = queue[1:]
		if p == nil || seen[p.path] {
			continue
		}
		seen[p.path] = true
		theirs = append(theirs, p.theirs...)
		queue = append(queue, p.ours...)
	}
	return theirs
}

// TestDeepJSONIsRefused checks that no package passes hujson a text that nests without a
// limit: hujson recurses, and a stack overflow ends the process.
func TestDeepJSONIsRefused(t *testing.T) {
	limits := map[string]string{ // what the file calls first, unless it is text.CheckJSON
		"internal/environment/script.go":  "readJSONC(",
		"internal/guest/notebook/scan.go": "json.Valid(", // which limits the nesting to 10,000
		"internal/policy/permit/add.go":   "Parse(\"permissions.json\"",
	}
	walk(t, func(file string) {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return
		}
		limit, ok := limits[file]
		if !ok {
			limit = "text.CheckJSON("
		}
		source := read(t, file)
		parses := strings.Index(source, "hujson.Parse(")
		if at := strings.Index(source, "hujson.Standardize("); parses < 0 || at >= 0 && at < parses {
			parses = at
		}
		if before := strings.Index(source, limit); parses >= 0 && (before < 0 || before > parses) {
			t.Errorf("%s: call %s before hujson", file, limit)
		}
	})
}
