package patch

// Place returns the file that has the line, and the number of the line on the other
// side of the diff: 0 if the change adds or removes it. ok is false if the line is
// not part of the patch.
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

// Changes reports whether the patch adds one of the lines of the new version of a
// file, or removes lines next to them.
func (p Patch) Changes(path string, first, last int) bool {
	for _, f := range p.Files {
		if f.New != path || path == "" {
			continue
		}
		for _, h := range f.Hunks {
			at := h.New.First
			if h.New.Count == 0 { // the lines after line First were removed
				at++
			}
			for i := range len(h.Kinds) {
				switch h.Kinds[i] {
				case '+':
					if first <= at && at <= last {
						return true
					}
					at++
				case '-': // between the lines at-1 and at
					if first <= at && at-1 <= last {
						return true
					}
				default:
					at++
				}
			}
		}
	}
	return false
}

// Has reports whether the patch changes the file.
func (p Patch) Has(path string) bool {
	for _, f := range p.Files {
		if path != "" && (f.New == path || f.Old == path) {
			return true
		}
	}
	return false
}
