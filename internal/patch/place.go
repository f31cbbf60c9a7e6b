package patch

// Place returns the file that has the line, and the line's number on the other side of
// the diff, or 0 if the change adds or removes the line. ok is false if the line is not
// part of the patch.
func (p Patch) Place(path string, line int, oldSide bool) (f File, other int, ok bool) {
	for _, f := range p.Files {
		if path == "" || path != f.side(oldSide) {
			continue
		}
		for _, h := range f.Hunks {
			before, after := h.Old.First, h.New.First
			for i := range len(h.Kinds) {
				kind, here, there := h.Kinds[i], after, before
				if oldSide {
					here, there = before, after
				}
				isHere := kind == ' ' || (kind == '-') == oldSide
				if isHere && here == line {
					if kind != ' ' {
						there = 0
					}
					return f, there, true
				}
				if kind != '+' {
					before++
				}
				if kind != '-' {
					after++
				}
			}
		}
	}
	return File{}, 0, false
}

// side returns the path of the file before or after the change.
func (f File) side(old bool) string {
	if old {
		return f.Old
	}
	return f.New
}

// Lines are lines of the new version of a file. If First is 0, the element is about
// the old version instead.
type Lines struct {
	Path        string
	First, Last int
}

// Changed returns the lines that the patch adds, and the lines next to removed lines, in
// the order of the patch. For each changed file there is also an element with First 0.
func (p Patch) Changed() (all []Lines) {
	for _, f := range p.Files {
		for _, name := range []string{f.Old, f.New} {
			if name != "" && !containsFile(all, name) {
				all = append(all, Lines{Path: name})
			}
		}
		for _, h := range f.Hunks {
			if f.New != "" {
				all = append(all, h.changed(f.New)...)
			}
		}
	}
	return all
}

func containsFile(all []Lines, path string) bool {
	for _, l := range all {
		if l.Path == path && l.First == 0 {
			return true
		}
	}
	return false
}

// changed returns the changed lines of the hunk.
func (h Hunk) changed(path string) (all []Lines) {
	add := func(first, last int) {
		first = max(first, 1)
		if n := len(all); n > 0 && first <= all[n-1].Last+1 {
			all[n-1].Last = max(all[n-1].Last, last)
			return
		}
		all = append(all, Lines{path, first, last})
	}
	at := h.New.First
	if h.New.Count == 0 { // the lines after line First were removed
		at++
	}
	for i := range len(h.Kinds) {
		switch h.Kinds[i] {
		case '+':
			add(at, at)
			at++
		case '-': // between the lines at-1 and at
			add(at-1, at)
		default:
			at++
		}
	}
	return all
}
