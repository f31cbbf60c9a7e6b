package webp

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// A token is a pixel or, if length is not 0, a copy of earlier pixels.
type token struct{ pixel, length, distance uint32 }

// image writes the pixels of an image with that width.
func (w *writer) image(pixels []uint32, width int, main bool) {
	w.bits(0, 1) // no color cache
	if main {
		w.bits(0, 1) // one set of codes for the whole image
	}
	tokens := match(pixels, width)
	var counts [5][]int // of green and lengths, red, blue, alpha, and distances
	for i, n := range []int{256 + lengths, 256, 256, 256, 40} {
		counts[i] = make([]int, n)
	}
	for _, t := range tokens {
		if t.length == 0 {
			counts[0][t.pixel>>8&0xff]++
			counts[1][t.pixel>>16&0xff]++
			counts[2][t.pixel&0xff]++
			counts[3][t.pixel>>24]++
			continue
		}
		symbol, _, _ := prefix(t.length)
		counts[0][256+symbol]++
		symbol, _, _ = prefix(t.distance)
		counts[4][symbol]++
	}
	var codes [5][]code
	for i := range codes {
		codes[i] = codesOf(counts[i], maxLength)
		w.codes(codes[i])
	}
	for _, t := range tokens {
		if t.length == 0 {
			w.code(codes[0][t.pixel>>8&0xff])
			w.code(codes[1][t.pixel>>16&0xff])
			w.code(codes[2][t.pixel&0xff])
			w.code(codes[3][t.pixel>>24])
			continue
		}
		symbol, extra, n := prefix(t.length)
		w.code(codes[0][256+symbol])
		w.bits(uint64(extra), n)
		symbol, extra, n = prefix(t.distance)
		w.code(codes[4][symbol])
		w.bits(uint64(extra), n)
	}
}

// match finds repetitions: of the row above, of the previous pixel, and of the
// last occurrence of the same three pixels.
func match(pixels []uint32, width int) []token {
	tokens := make([]token, 0, len(pixels)/4)
	var last [1 << hashBits]int32 // index plus 1
	for i := 0; i < len(pixels); {
		length, from := 0, 0
		try := func(j int) {
			if j < 0 || i-j > maxWindow || length > 0 && (i+length >= len(pixels) || pixels[j+length] != pixels[i+length]) {
				return
			}
			n, most := 0, min(maxMatch, len(pixels)-i)
			for n < most && pixels[j+n] == pixels[i+n] {
				n++
			}
			if n > length {
				length, from = n, j
			}
		}
		try(i - 1)
		try(i - width)
		if i+minMatch <= len(pixels) {
			h := (pixels[i]*0x9e3779b1 ^ pixels[i+1]*0x85ebca6b ^ pixels[i+2]*0xc2b2ae35) >> (32 - hashBits)
			try(int(last[h]) - 1)
			last[h] = int32(i + 1)
		}
		if length < minMatch {
			tokens = append(tokens, token{pixel: pixels[i]})
			i++
			continue
		}
		distance := uint32(i - from + 120)
		switch i - from {
		case 1:
			distance = 2
		case width:
			distance = 1
		}
		tokens = append(tokens, token{length: uint32(length), distance: distance})
		i += length
	}
	return tokens
}

// prefix returns the symbol for a length or a distance, and the extra bits that
// follow it.
func prefix(v uint32) (symbol int, extra uint32, n int) {
	v--
	if v < 4 {
		return int(v), 0, 0
	}
	n = bits.Len32(v) - 2
	return 2*(n+1) + int(v>>n&1), v & (1<<n - 1), n
}

// maxLength is the maximum length of a code, in bits; codes for code lengths
// have at most 7.
const maxLength = 15

// A code holds the bits of a symbol, in writing order.
type code struct {
	bits   uint16
	length uint8 // 0 if the symbol does not occur, or is the only one
	used   bool
}

// codesOf returns Huffman codes for symbols with the given counts.
func codesOf(counts []int, most int) []code {
	codes := make([]code, len(counts))
	type node struct{ weight, left, right int } // a symbol is a node with left = -1 and the symbol in right
	var nodes []node
	for s, n := range counts {
		if n > 0 {
			nodes = append(nodes, node{n, -1, s})
			codes[s].used = true
		}
	}
	if len(nodes) < 2 {
		return codes
	}
	symbols := len(nodes)
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Or(a.weight-b.weight, a.right-b.right) })
	for leaf, inner := 0, symbols; len(nodes) < 2*symbols-1; {
		least := func() int {
			if leaf < symbols && (inner == len(nodes) || nodes[leaf].weight <= nodes[inner].weight) {
				leaf++
				return leaf - 1
			}
			inner++
			return inner - 1
		}
		a, b := least(), least()
		nodes = append(nodes, node{nodes[a].weight + nodes[b].weight, a, b})
	}
	depth := make([]int, len(nodes))
	for i := len(nodes) - 1; i >= 0; i-- {
		n := nodes[i]
		if n.left < 0 {
			if depth[i] > most { // rare: flatten the counts and try again
				flat := make([]int, len(counts))
				for s, n := range counts {
					flat[s] = (n + 1) / 2
				}
				return codesOf(flat, most)
			}
			codes[n.right].length = uint8(depth[i])
			continue
		}
		depth[n.left], depth[n.right] = depth[i]+1, depth[i]+1
	}
	next := uint16(0)
	for length := 1; length <= most; length++ {
		for s := range codes {
			if int(codes[s].length) == length {
				codes[s].bits = bits.Reverse16(next) >> (16 - length)
				next++
			}
		}
		next <<= 1
	}
	return codes
}

// lengthOrder is the order in which the format stores the lengths of the code
// length codes.
var lengthOrder = [19]int{17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// codes writes the lengths of the codes.
func (w *writer) codes(codes []code) {
	var used []int
	for s, c := range codes {
		if c.used {
			used = append(used, s)
		}
	}
	if len(used) == 0 {
		used = []int{0}
	}
	if len(used) <= 2 && used[len(used)-1] < 256 {
		w.bits(1, 1)
		w.bits(uint64(len(used)-1), 1)
		w.bits(1, 1) // the first symbol has eight bits
		for _, s := range used {
			w.bits(uint64(s), 8)
		}
		return
	}
	// Runs of zeros use symbol 17 for 3 to 10, and 18 for 11 to 138.
	type run struct{ symbol, extra, bits int }
	var runs []run
	for i := 0; i < len(codes); {
		if codes[i].used {
			runs = append(runs, run{symbol: max(1, int(codes[i].length))}) // a single symbol needs no bits, so any length will do
			i++
			continue
		}
		n := 1
		for n < 138 && i+n < len(codes) && !codes[i+n].used {
			n++
		}
		i += n
		switch {
		case n < 3:
			runs = append(runs, slices.Repeat([]run{{}}, n)...)
		case n < 11:
			runs = append(runs, run{17, n - 3, 3})
		default:
			runs = append(runs, run{18, n - 11, 7})
		}
	}
	counts := make([]int, len(lengthOrder))
	for _, r := range runs {
		counts[r.symbol]++
	}
	of := codesOf(counts, 7)
	w.bits(0, 1)
	w.bits(uint64(len(lengthOrder)-4), 4)
	for _, s := range lengthOrder {
		length := of[s].length
		if of[s].used {
			length = max(1, length)
		}
		w.bits(uint64(length), 3)
	}
	w.bits(0, 1) // no explicit number of lengths
	for _, r := range runs {
		w.code(of[r.symbol])
		w.bits(uint64(r.extra), r.bits)
	}
}

// A writer collects bits, lowest first.
type writer struct {
	buf     []byte
	pending uint64
	n       int // number of bits held
}

func (w *writer) bits(v uint64, n int) {
	w.pending |= v << w.n
	w.n += n
	if w.n >= 32 {
		w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(w.pending))
		w.pending >>= 32
		w.n -= 32
	}
}

func (w *writer) code(c code) { w.bits(uint64(c.bits), int(c.length)) }

func (w *writer) finish() []byte {
	for ; w.n > 0; w.n -= 8 {
		w.buf = append(w.buf, byte(w.pending))
		w.pending >>= 8
	}
	return w.buf
}
