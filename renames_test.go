package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// renames lists the files outside of package atomicfile that rename files, with
// the number of renames and the reason why atomicfile does not fit.
var renames = map[string]struct {
	n   int
	why string
}{
	"internal/control/dockerfile/bases.go":             {1, "a folder, which another build may have made first"},
	"internal/control/image/layer.go":                  {1, "a folder, which another process may have made first"},
	"internal/control/machine/container/install.go":    {1, "a folder, which another process may have made first"},
	"internal/control/machine/container/dockerdata.go": {1, "a new folder"},
	"internal/control/machine/container/freeze.go":     {1, "a new folder"},
	"internal/control/mirror/mirror.go":                {1, "a new folder, which is made again if it is damaged"},
	"internal/control/machine/container/memory.go":     {2, "a folder; the whole disk is synced before"},
	"internal/control/layer/claim.go":                  {1, "a folder; the folder above is synced after it"},
	"internal/control/layer/freeze.go":                 {2, "folders; the folder above is synced after them"},
	"internal/control/backup/target.go":                {1, "a folder onto an empty one; both are synced"},
	"internal/control/image/prune.go":                  {1, "a folder that is to be removed"},
	"internal/control/trash/trash.go":                  {1, "a file or folder that is to be removed"},
	"internal/control/trash/remove.go":                 {1, "a folder that is to be removed"},
	"internal/control/image/aptcache/download.go":      {1, "a package that is complete; apt verifies it"},
	"internal/control/image/debian/debian.go":          {1, "a blob that is named after its content, in a layout that is not in use yet"},
	"internal/control/mirror/receive.go":               {1, "packs that git has written and synced"},
	"internal/cli/agents/artifacts.go":                 {1, "a download of the user's, below an os.Root"},
	"internal/guest/pid1/inside.go":                    {1, "an artifact of the agent's, below an os.Root"},
	"internal/guest/file/replace.go":                   {1, "a file of the user's, whose mode and links are kept"},
	"internal/guest/execd/file.go":                     {3, "files of the user's, which may be moved, and replaced only under a condition"},
	"internal/guest/sandbox/placeholder.go":            {1, "a file that is moved out of the way"},
	"internal/guest/shell/run.go":                      {1, "a file that bash has written"},
}

// TestRenames finds every rename. Package atomicfile must replace files; any
// other rename needs a row in renames.
func TestRenames(t *testing.T) {
	found := map[string]int{}
	walk(t, func(file string) {
		at := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || strings.Contains(at, "testdata") || testHelper.MatchString(at) || at == "internal/atomicfile" || !strings.HasPrefix(at, "cmd/") && !strings.HasPrefix(at, "internal/") {
			return
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || !strings.HasPrefix(s.Sel.Name, "Rename") {
				return true
			}
			if of, ok := s.X.(*ast.Ident); ok && slices.Contains([]string{"os", "unix", "syscall", "root"}, of.Name) {
				found[file]++
			}
			return true
		})
	})
	for _, file := range slices.Sorted(maps.Keys(found)) {
		if n := renames[file].n; n != found[file] {
			t.Errorf("%s renames %d times, and renames has %d: use package atomicfile, or say why not", file, found[file], n)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(renames)) {
		if found[file] == 0 || renames[file].why == "" {
			t.Errorf("%s: nothing is renamed there, or it is not said why", file)
		}
	}
}
