package sandbox

import "path"

// memo caches the answers of a tree, because planning asks about the same paths
// many times.
type memo struct {
	tree  Tree
	kinds map[string]Kind
	real  map[string]string
}

func (m memo) Kind(name string) Kind {
	k, ok := m.kinds[name]
	if !ok {
		k = m.tree.Kind(name)
		m.kinds[name] = k
	}
	return k
}

func (m memo) Names(dir string) []string { return m.tree.Names(dir) }

func (m memo) Folds(dir string) bool { return m.tree.Folds(dir) }

func (m memo) IsPlaceholder(name string) bool { return m.tree.IsPlaceholder(name) }

func (m memo) Resolve(name string) string {
	r, ok := m.real[name]
	if !ok {
		r = m.resolve(name)
		m.real[name] = r
	}
	return r
}

// resolve resolves the cached parent, and asks the tree only about the last element of
// the path, unless that is a link.
func (m memo) resolve(name string) string {
	if name == "/" || !path.IsAbs(name) || path.Clean(name) != name {
		return m.tree.Resolve(name)
	}
	dir := m.Resolve(path.Dir(name))
	if dir == "" {
		return ""
	}
	at := path.Join(dir, path.Base(name))
	switch m.Kind(at) {
	case None:
		return ""
	case Link:
		return m.tree.Resolve(at)
	}
	return at
}
