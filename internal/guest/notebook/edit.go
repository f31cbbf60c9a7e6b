package notebook

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Empty is a notebook without cells, formatted as Jupyter does.
const Empty = "{\n \"cells\": [],\n \"metadata\": {},\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}\n"

// SetSource returns the notebook's text with a new source in a cell. The cell gets the
// given kind and language. If a code cell changes, its outputs are removed.
func (n *Notebook) SetSource(at int, source, kind, language string) ([]byte, error) {
	c := n.Cells[at]
	values := map[string]string{"source": n.source(c, source)}
	if kind == Code {
		values["outputs"], values["execution_count"] = "[]", "null"
	}
	if c.Kind != kind {
		values["cell_type"] = n.style.quote(kind)
	}
	meta, hasMeta := find(c.members, "metadata")
	if !hasMeta {
		values["metadata"] = "{}"
	}
	if id := n.languageChange(c, kind, language); id != "" {
		old := "{}"
		if hasMeta {
			old = string(meta.value.slice(n.text))
		}
		values["metadata"] = n.setLanguage(old, id)
	}
	drop := []string(nil)
	if kind != Code {
		drop = []string{"outputs", "execution_count"}
	}
	return n.checked(n.splice(c.span, n.rebuild(c, values, drop)))
}

// Insert returns the notebook's text with a new cell inserted before the cell
// at an index, or added at the end.
func (n *Notebook) Insert(at int, source, kind, language string) ([]byte, error) {
	meta := "{}"
	if own := n.foreign(language); kind == Code && own != "" {
		meta = n.setLanguage(meta, own)
	}
	lines := n.style.lines(source, 4)
	values := [][2]string{{"cell_type", n.style.quote(kind)}}
	if kind == Code {
		values = append(values, [2]string{"execution_count", "null"})
	}
	if n.Minor >= 5 {
		values = append(values, [2]string{"id", n.style.quote(n.newID(at))})
	}
	values = append(values, [2]string{"metadata", meta})
	if kind == Code {
		values = append(values, [2]string{"outputs", "[]"})
	}
	cell := n.style.object(append(values, [2]string{"source", lines}), 3)
	switch {
	case len(n.Cells) == 0:
		return n.checked(n.splice(n.array, "["+n.style.line(2)+cell+n.style.line(1)+"]"))
	case at == len(n.Cells):
		end := n.Cells[at-1].span.to
		return n.checked(n.splice(span{end, end}, n.style.comma(2)+cell))
	}
	begin := n.Cells[at].span.from
	return n.checked(n.splice(span{begin, begin}, cell+n.style.comma(2)))
}

// rebuild returns the text of a cell with changed values, keeping the order of
// its members. Replacing values leaves the text between them unchanged.
func (n *Notebook) rebuild(c Cell, values map[string]string, drop []string) string {
	same := true
	for name := range values {
		_, there := find(c.members, name)
		same = same && there
	}
	for _, name := range drop {
		_, there := find(c.members, name)
		same = same && !there
	}
	if same {
		var b strings.Builder
		at := c.span.from
		for _, m := range c.members {
			if value, ok := values[m.name]; ok {
				b.Write(n.text[at:m.value.from])
				b.WriteString(value)
				at = m.value.to
			}
		}
		b.Write(n.text[at:c.span.to])
		return b.String()
	}
	var all [][2]string
	for _, m := range c.members {
		if slices.Contains(drop, m.name) {
			continue
		}
		value, ok := values[m.name]
		if !ok {
			value = string(m.value.slice(n.text))
		}
		all = append(all, [2]string{m.name, value})
	}
	for _, name := range []string{"cell_type", "execution_count", "metadata", "outputs", "source"} {
		value, ok := values[name]
		if _, there := find(c.members, name); !ok || there {
			continue
		}
		// Jupyter sorts members by name.
		at := slices.IndexFunc(all, func(m [2]string) bool { return m[0] > name })
		if at < 0 {
			at = len(all)
		}
		all = slices.Insert(all, at, [2]string{name, value})
	}
	return n.style.object(all, 3)
}

// source returns a cell's source as JSON, in its previous form: a string or a list.
func (n *Notebook) source(c Cell, source string) string {
	if m, ok := find(c.members, "source"); ok && n.text[m.value.from] == '"' {
		return n.style.quote(source)
	}
	return n.style.lines(source, 4)
}

func (n *Notebook) splice(at span, with string) []byte {
	return slices.Concat(n.text[:at.from], []byte(with), n.text[at.to:])
}

// checked makes sure that the result is still a valid notebook.
func (n *Notebook) checked(text []byte) ([]byte, error) {
	if _, err := Parse(text); err != nil {
		return nil, fmt.Errorf("the change would make the notebook invalid: %w", err)
	}
	return text, nil
}

// newID returns an unused cell id of eight digits, as Jupyter makes them. It is
// deterministic: the same change gives the same id.
func (n *Notebook) newID(at int) string {
	for salt := 0; ; salt++ {
		sum := sha256.Sum256([]byte(strconv.Itoa(at) + "." + strconv.Itoa(salt) + "\n" + string(n.text)))
		id := hex.EncodeToString(sum[:4])
		if !slices.ContainsFunc(n.Cells, func(c Cell) bool { return c.ID == id }) {
			return id
		}
	}
}

// languageID returns VS Code's name for a language. Notebooks with several
// languages mark their cells with it.
func languageID(language string) string {
	if language == "shell" {
		return "shellscript"
	}
	return language
}

// foreign returns the name of a language if it is not the notebook's own; empty
// if it is, or if the notebook's language is unknown.
func (n *Notebook) foreign(language string) string {
	own := n.Language
	if own == "" {
		own = "python"
	}
	switch {
	case language == "" || language == "other" || language == own:
		return ""
	case language == "python" && strings.HasPrefix(own, "python"), language == "shell" && (own == "bash" || own == "sh"):
		return ""
	}
	return languageID(language)
}

// languageChange returns the language that a cell's metadata must name from now
// on; empty if the metadata need not change.
func (n *Notebook) languageChange(c Cell, kind, language string) string {
	switch {
	case kind != Code || language == "" || language == "other":
		return ""
	case c.Language == "":
		return n.foreign(language)
	case c.Language == languageID(language):
		return ""
	}
	return languageID(language)
}

// setLanguage returns a cell's metadata with a language.
func (n *Notebook) setLanguage(meta, id string) string {
	text := []byte(meta)
	value := n.style.object([][2]string{{"languageId", n.style.quote(id)}}, 5)
	tree, _ := parse(text) // it is part of a text that was parsed
	all := membersOf(tree)
	if m, ok := find(all, "vscode"); ok {
		return string(text[:m.value.from]) + value + string(text[m.value.to:])
	}
	var members [][2]string
	for _, m := range all {
		members = append(members, [2]string{m.name, string(m.value.slice(text))})
	}
	return n.style.object(append(members, [2]string{"vscode", value}), 4)
}
