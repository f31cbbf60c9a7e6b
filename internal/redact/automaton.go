package redact

import (
	"encoding/binary"
	"maps"
	"slices"
)

// automaton is an Aho–Corasick automaton: a trie of all patterns in which each state has
// a failure link for mismatches. A Wu–Manber shift table skips several bytes at a time
// where no pattern can start.
type automaton struct {
	states []state
	tables [][256]int32 // child tables of states with several children; 0 means no child
	shift  []uint8      // how many bytes can be skipped, by the hash of block bytes
	least  int          // length of the shortest pattern
}

// state is a prefix of a pattern; the first state is the empty prefix.
type state struct {
	fail  int32 // the longest proper suffix that is also a state
	next  int32 // the only child, or the index of a table
	depth int32
	match int32 // length of the longest pattern that ends here; 0 for none
	char  byte  // label of the only child
	kids  kids
}

type kids uint8

const (
	none kids = iota
	one
	many
)

// block is how many bytes are hashed for the shift table; every pattern is longer.
const block = 4

const hashBits = 16

func hash(b []byte) uint32 {
	return binary.LittleEndian.Uint32(b) * 0x9E3779B1 >> (32 - hashBits)
}

// near is the maximum depth at which the scan leaves a state to use the shift table
// again. It limits how many bytes are read twice.
const near = 3

// build returns the automaton of the patterns, or nil if there are none.
func build(patterns map[string]struct{}) *automaton {
	if len(patterns) == 0 {
		return nil
	}
	sorted := slices.Sorted(maps.Keys(patterns))
	a := &automaton{states: make([]state, 1), least: len(sorted[0])}
	for _, p := range sorted {
		a.least = min(a.least, len(p))
		a.insert(p)
	}
	a.link()
	a.shift = make([]uint8, 1<<hashBits)
	most := uint8(min(a.least-block+1, 255))
	for i := range a.shift {
		a.shift[i] = most
	}
	for _, p := range sorted {
		for i := 0; i+block <= a.least; i++ {
			h := hash([]byte(p[i : i+block]))
			a.shift[h] = min(a.shift[h], uint8(min(a.least-block-i, 255)))
		}
	}
	return a
}

func (a *automaton) insert(pattern string) {
	at := int32(0)
	for i := range len(pattern) {
		next := a.child(at, pattern[i])
		if next == 0 {
			next = int32(len(a.states))
			a.states = append(a.states, state{depth: int32(i + 1)})
			a.adopt(at, pattern[i], next)
		}
		at = next
	}
	a.states[at].match = a.states[at].depth
}

// adopt adds a child to the state.
func (a *automaton) adopt(of int32, char byte, child int32) {
	s := &a.states[of]
	switch s.kids {
	case none:
		s.kids, s.char, s.next = one, char, child
	case one:
		var table [256]int32
		table[s.char], table[char] = s.next, child
		s.kids, s.next = many, int32(len(a.tables))
		a.tables = append(a.tables, table)
	case many:
		a.tables[s.next][char] = child
	}
}

// child returns the state's child, or 0.
func (a *automaton) child(of int32, char byte) int32 {
	switch s := &a.states[of]; {
	case s.kids == many:
		return a.tables[s.next][char]
	case s.kids == one && s.char == char:
		return s.next
	}
	return 0
}

// link sets the failure links, breadth first.
func (a *automaton) link() {
	queue := make([]int32, 1, len(a.states))
	for i := 0; i < len(queue); i++ {
		from := queue[i]
		a.eachChild(from, func(char byte, to int32) {
			queue = append(queue, to)
			if from != 0 {
				fail := a.step(a.states[from].fail, char)
				a.states[to].fail = fail
				a.states[to].match = max(a.states[to].match, a.states[fail].match)
			}
		})
	}
}

func (a *automaton) eachChild(of int32, do func(char byte, child int32)) {
	switch s := a.states[of]; s.kids {
	case one:
		do(s.char, s.next)
	case many:
		for char := range 256 {
			if child := a.tables[s.next][char]; child != 0 {
				do(byte(char), child)
			}
		}
	}
}

// step returns the state after one more byte.
func (a *automaton) step(at int32, char byte) int32 {
	for {
		if next := a.child(at, char); next != 0 || at == 0 {
			return next
		}
		at = a.states[at].fail
	}
}

// scan reads the bytes b, starting in state at. For each match, it calls found with the
// match's end in b and its length, which is greater than that end if the match began
// before b. It stops if found returns false. It returns the state at the end of b.
func (a *automaton) scan(at int32, b []byte, found func(end, length int) bool) int32 {
	i := 0 // bytes read so far
	for {
		if at == 0 {
			i += a.pass(b[i:])
		}
		start := i
		for {
			if i == len(b) {
				return at
			}
			at = a.step(at, b[i])
			i++
			s := &a.states[at]
			if s.match > 0 && !found(i, int(s.match)) {
				return at
			}
			// Only matches that start here or later are still possible.
			begin := i - int(s.depth)
			if begin == start || begin < 0 || s.depth > near {
				continue
			}
			start = begin
			if begin+a.least <= len(b) {
				if skip := int(a.shift[hash(b[begin+a.least-block:])]); skip > 0 {
					i, at = begin+skip, 0
					break
				}
			}
		}
	}
}

// pass returns how many bytes at the start of b cannot start a pattern.
func (a *automaton) pass(b []byte) int {
	i := 0
	for end := a.least; i+end <= len(b); {
		skip := int(a.shift[hash(b[i+end-block:])])
		if skip == 0 {
			break
		}
		i += skip
	}
	return i
}
