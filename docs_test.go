package repo

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the generated pages of docs/reference")

// TestEveryPageIsReachable follows the links from docs/README.md. They must
// lead to every page of the documentation.
func TestEveryPageIsReachable(t *testing.T) {
	const index = "docs/README.md"
	if !slices.Contains(linksOf(t, "README.md"), index) {
		t.Errorf("README.md does not link to %s", index)
	}
	reached := map[string]bool{index: true}
	for queue := []string{index}; len(queue) > 0; queue = queue[1:] {
		for _, page := range linksOf(t, queue[0]) {
			if filepath.Ext(page) == ".md" && !reached[page] {
				reached[page] = true
				queue = append(queue, page)
			}
		}
	}
	pages := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "bench/README.md"}
	err := filepath.WalkDir("docs", func(file string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".md" {
			pages = append(pages, filepath.ToSlash(file))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if !reached[page] {
			t.Errorf("%s cannot be reached from %s: add a link", page, index)
		}
	}
}

// linksOf returns the files that a page links to, relative to the root.
func linksOf(t *testing.T, page string) []string {
	t.Helper()
	var to []string
	for _, m := range docLink.FindAllStringSubmatch(read(t, page), -1) {
		to = append(to, filepath.ToSlash(filepath.Join(filepath.Dir(page), m[2])))
	}
	return to
}

// docLink is a Markdown link to a file of the repository: its text and the file.
var docLink = regexp.MustCompile(`\[([^]\n]*)\]\(([^)#: ]+)(?:#[^)]*)?\)`)

// TestAnchorsInDocsLead checks that the anchor in each link to a page is the
// anchor of a heading on that page.
func TestAnchorsInDocsLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#: ]*)#([^)]+)\)`)
	for _, page := range markdown(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			if filepath.Ext(to) == ".md" && !slices.Contains(anchorsOf(t, to), m[2]) {
				t.Errorf("%s links to %s#%s: there is no such heading", page, to, m[2])
			}
		}
	}
}

// anchorsOf returns the anchors that GitHub generates for the headings of a
// page.
func anchorsOf(t *testing.T, page string) []string {
	t.Helper()
	var anchors []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(read(t, page), -1) {
		plain := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		anchors = append(anchors, plain)
	}
	return anchors
}

// TestLinkedFunctionsExist checks every link to a Go file whose text is code:
// the file must declare the function, method or type that the text names.
func TestLinkedFunctionsExist(t *testing.T) {
	n := 0
	for _, page := range markdown(t) {
		for _, m := range docLink.FindAllStringSubmatch(read(t, page), -1) {
			name, isCode := strings.CutPrefix(strings.TrimSuffix(m[1], "`"), "`")
			if filepath.Ext(m[2]) != ".go" || !isCode || strings.ContainsAny(name, "/ ") || strings.HasSuffix(name, ".go") {
				continue
			}
			n++
			file := filepath.Join(filepath.Dir(page), m[2])
			if !slices.Contains(declared(t, file), strings.TrimSuffix(name, "()")) {
				t.Errorf("%s: %s does not declare %s", page, file, name)
			}
		}
	}
	if n < 20 {
		t.Errorf("found only %d links to functions; is the pattern right?", n)
	}
}

// declared returns the functions, methods ("Method" and "Type.Method"), types,
// variables and constants that a file declares at the top level.
func declared(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
			if d.Recv != nil {
				recv := d.Recv.List[0].Type
				if star, ok := recv.(*ast.StarExpr); ok {
					recv = star.X
				}
				if ident, ok := recv.(*ast.Ident); ok {
					names = append(names, ident.Name+"."+d.Name.Name)
				}
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, ident := range spec.Names {
						names = append(names, ident.Name)
					}
				}
			}
		}
	}
	return names
}

// markdown returns every hand-written or generated page of the repository.
func markdown(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, top := range []string{"docs", "bench"} {
		err := filepath.WalkDir(top, func(file string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(file) == ".md" {
				pages = append(pages, filepath.ToSlash(file))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

// TestPackageReference compares docs/reference/packages.md with the packages:
// the first sentence of each package comment, and the row of mayImport.
func TestPackageReference(t *testing.T) {
	const page = "docs/reference/packages.md"
	var b strings.Builder
	b.WriteString("# Packages\n\n" +
		"Every Go package, in the words of its package comment, and which of our own packages it may import. " +
		"[ARCHITECTURE.md](../../ARCHITECTURE.md) explains the rules; the table `mayImport` in `repo_test.go` enforces them.\n" +
		"This page is generated: `go test . -run PackageReference -update`.\n\n" +
		"*Nouns* are the packages of the domain. They do no I/O, and most packages may import them: " + codeList(nouns) + ".\n")
	group := ""
	for _, p := range packages(t) {
		if g := groupOf(p.path); g != group {
			group = g
			fmt.Fprintf(&b, "\n## %s\n\n| package | what it is | may import |\n|---|---|---|\n", g)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.path, synopsis(t, p.path), importsOf(p.path))
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if read(t, page) != b.String() {
		t.Errorf("%s is not up to date: run go test . -run PackageReference -update", page)
	}
}

// groupOf returns the heading under which packages.md lists a package.
func groupOf(dir string) string {
	parts := strings.Split(dir, "/")
	switch {
	case parts[0] != "internal":
		return parts[0]
	case slices.Contains([]string{"control", "guest", "wire"}, parts[1]):
		return "internal/" + parts[1]
	default:
		return "internal"
	}
}

// synopsis returns the first sentence of a package's comment, formatted for a
// table cell.
func synopsis(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if isGenerated(t, file) && f.Doc == nil {
			return "Generated code."
		}
		if f.Doc != nil {
			s := new(doc.Package).Synopsis(f.Doc.Text())
			return strings.ReplaceAll(s, "|", `\|`)
		}
	}
	return ""
}

// importsOf returns a package's rule in mayImport, formatted for a table cell.
func importsOf(dir string) string {
	rule := ruleFor(dir)
	var cells, list []string
	for _, r := range mayImport[rule] {
		switch r {
		case "...":
			cells = append(cells, "anything")
		case "NOUNS":
			cells = append(cells, "nouns")
		default:
			list = append(list, r)
		}
	}
	slices.Sort(list)
	if len(list) > 0 {
		cells = append(cells, codeList(list))
	}
	if len(cells) == 0 {
		return "none"
	}
	return strings.Join(cells, ", ")
}

func codeList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = "`" + strings.TrimPrefix(name, "internal/") + "`"
	}
	return strings.Join(quoted, ", ")
}

// glossaryRow is a line of docs/glossary.md: the term, its meaning, and its
// packages.
var glossaryRow = regexp.MustCompile(`(?m)^\| \*\*([^*]+)\*\* \| (.+) \| (.*) \|$`)

func TestGlossary(t *testing.T) {
	const page = "docs/glossary.md"
	rows := glossaryRow.FindAllStringSubmatch(read(t, page), -1)
	named := map[string]bool{}
	previous := ""
	for _, row := range rows {
		if key := strings.ToLower(row[1]); key <= previous {
			t.Errorf("%s: %q must not come after %q: keep the terms in alphabetical order", page, row[1], previous)
		} else {
			previous = key
		}
		for _, m := range regexp.MustCompile("`([a-z0-9/]+)`").FindAllStringSubmatch(row[3], -1) {
			named["internal/"+m[1]] = true
		}
	}
	if len(rows) < 80 {
		t.Errorf("%s has %d rows; does the pattern match them?", page, len(rows))
	}
	for _, from := range []string{"CONTRIBUTING.md", "docs/README.md"} {
		if !slices.Contains(linksOf(t, from), page) {
			t.Errorf("%s does not link to %s", from, page)
		}
	}
	exporting := map[string]bool{}
	for _, p := range packages(t) {
		if strings.HasPrefix(p.path, "internal/") && exportsType(t, p.path) {
			exporting[p.path] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(exporting)) {
		if !named[dir] {
			t.Errorf("%s: no row names the package %s, which exports a type: add it to the row of the term that it is about", page, strings.TrimPrefix(dir, "internal/"))
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(named)) {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s names the package %s, which does not exist", page, dir)
		}
	}
}

// exportsType reports whether a package declares an exported type in
// hand-written code.
func exportsType(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || isGenerated(t, file) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && slices.ContainsFunc(g.Specs, func(s ast.Spec) bool {
				return s.(*ast.TypeSpec).Name.IsExported()
			}) {
				return true
			}
		}
	}
	return false
}

// retired maps retired words to their replacements. A word is added after its
// last identifier was renamed, so that it does not return.
var retired = map[string]string{
	"beside":   "what it is: the background, a yardstick, a second result",
	"cage":     "sandbox",
	"greeting": "hello, or clientHello",
	"hands":    "machine",
	"mend":     "fix",
	"wish":     "request, or options",
	"wreck":    "failedBuild",
}

// TestRetiredWords fails if a retired word is part of a Go identifier, of a
// TypeScript declaration, or of the name of a code file or folder.
func TestRetiredWords(t *testing.T) {
	fine := map[string]bool{} // caches whether a name has no retired word, since most names occur often
	check := func(file, name string) {
		if fine[name] {
			return
		}
		fine[name] = true
		for _, word := range wordsOf(name) {
			if instead := retired[word]; instead != "" {
				fine[name] = false
				t.Errorf("%s: %s has the retired word %q: say %s", file, name, word, instead)
			}
		}
	}
	walk(t, func(file string) {
		if isGenerated(t, file) {
			return
		}
		check(file, strings.TrimSuffix(file, ".go"))
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if ident, ok := n.(*ast.Ident); ok {
				check(file, ident.Name)
			}
			return true
		})
	})
	declaration := regexp.MustCompile(`\b(?:const|let|function|class|interface|type|enum)\s+([A-Za-z_]\w*)`)
	err := filepath.WalkDir("web/src", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".ts" && filepath.Ext(file) != ".tsx" {
			return err
		}
		check(file, strings.TrimSuffix(file, filepath.Ext(file)))
		for _, m := range declaration.FindAllStringSubmatch(read(t, file), -1) {
			check(file, m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wordsOf splits an identifier or a path into lower-case words: "sandboxPolicy"
// and "sandbox/policy" both become "sandbox" and "policy".
func wordsOf(name string) []string {
	name = acronym.ReplaceAllString(name, "$1 $2")
	name = camel.ReplaceAllString(name, "$1 $2")
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r < 'a' || r > 'z' })
}

var (
	acronym = regexp.MustCompile(`([A-Z]+)([A-Z][a-z])`)
	camel   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)
