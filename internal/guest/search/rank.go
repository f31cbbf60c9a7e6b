package search

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

// BM25 parameters, and the weights of a token in a symbol's name or in a path. With
// weight 3, for example, one occurrence counts as three occurrences in the text.
const (
	saturation   = 1.2
	byLength     = 0.5
	symbolWeight = 6
	pathWeight   = 3
)

const (
	candidates   = 200 // chunks that are ranked more closely
	perFile      = 3   // results from one file
	snippetLines = 14
	snippetLine  = 200 // bytes of a line in a snippet
)

// hit is a matching chunk.
type hit struct {
	segment *segment
	chunk   int
	name    string
	score   float64
}

// rank returns the best chunks, best first.
func (x *Index) rank(q Query, want []term) ([]hit, error) {
	chunks, tokens := 0, int64(0)
	for _, s := range x.segments {
		chunks += len(s.extents)
		tokens += s.tokens
	}
	if chunks == 0 {
		return nil, nil
	}
	average := max(1, float64(tokens)/float64(chunks))
	lists := make([][][]byte, len(want))
	rarity := make([]float64, len(want))
	total := 0.0
	for i, t := range want {
		having := 0
		lists[i] = make([][]byte, len(x.segments))
		for j, s := range x.segments {
			n, postings, err := s.find(t.text)
			if err != nil {
				return nil, err
			}
			having += n
			lists[i][j] = postings
		}
		rarity[i] = t.weight * math.Log(1+(float64(chunks-having)+0.5)/(float64(having)+0.5))
		total += rarity[i]
	}
	filter := x.filter(q.Folders)
	tests := slices.ContainsFunc(want, func(t term) bool { return strings.HasPrefix(t.text, "test") })
	var best []hit
	for j, s := range x.segments {
		scores := make([]float32, len(s.extents))
		covered := make([]float32, len(s.extents))
		for i := range want {
			err := s.each(lists[i][j], func(chunk, posting int) {
				n := float64(posting >> countBit)
				if posting&inSymbol != 0 {
					n += symbolWeight
				}
				if posting&inPath != 0 {
					n += pathWeight
				}
				long := 1 - byLength + byLength*float64(s.extents[chunk].tokens)/average
				scores[chunk] += float32(rarity[i] * n * (saturation + 1) / (n + saturation*long))
				covered[chunk] += float32(rarity[i])
			})
			if err != nil {
				return nil, err
			}
		}
		for place, p := range s.files {
			if s.dead[place] || !filter(p.name) || q.Hidden != nil && q.Hidden(p.name) {
				continue
			}
			weight := fileScore(p.name, tests)
			for chunk := p.first; chunk < p.first+p.count; chunk++ {
				if scores[chunk] > 0 {
					share := float64(covered[chunk]) / total
					best = append(best, hit{s, chunk, p.name, float64(scores[chunk]) * (0.4 + 0.6*share) * weight})
				}
			}
		}
	}
	slices.SortFunc(best, byScore)
	return best[:min(len(best), candidates)], nil
}

func byScore(a, b hit) int {
	switch {
	case a.score > b.score:
		return -1
	case a.score < b.score:
		return 1
	case a.name != b.name:
		return strings.Compare(a.name, b.name)
	}
	return a.chunk - b.chunk
}

// fileScore returns a factor that lowers the score of files that are less
// relevant: tests (unless the query asks for them), third-party code, and data.
func fileScore(name string, tests bool) float64 {
	s := 1.0
	lower := strings.ToLower(name)
	base := lower[strings.LastIndexByte(lower, '/')+1:]
	for part := range strings.SplitSeq(lower, "/") {
		switch part {
		case "testdata", "vendor", "node_modules", "third_party", "fixtures", "__snapshots__", "dist":
			s = 0.5
		case "test", "tests", "__tests__", "spec":
			if !tests {
				s = min(s, 0.7)
			}
		}
	}
	if !tests && (strings.Contains(base, "_test.") || strings.Contains(base, ".test.") || strings.Contains(base, ".spec.") || strings.HasPrefix(base, "test_")) {
		s = min(s, 0.7)
	}
	switch filepath.Ext(base) {
	case ".json", ".csv", ".svg", ".txt", ".xml", ".golden", ".html", ".snap":
		s *= 0.7
	}
	return s
}

// filter returns a function that reports whether a file is in one of the
// folders.
func (x *Index) filter(folders []string) func(name string) bool {
	var under []string
	for _, f := range folders {
		rel, err := filepath.Rel(x.cfg.Dir, f)
		if err == nil && rel == "." {
			return func(string) bool { return true }
		}
		under = append(under, filepath.ToSlash(rel))
	}
	return func(name string) bool {
		return len(folders) == 0 || slices.ContainsFunc(under, func(dir string) bool {
			return name == dir || strings.HasPrefix(name, dir) && name[len(dir)] == '/'
		})
	}
}

// results converts hits to results: it merges adjacent chunks, and limits the
// results per file.
func (x *Index) results(q Query, want []term, hits []hit) []Result {
	var out []Result
	at := make(map[string][]int)
	texts := make(map[string][]byte)
	most := min(max(q.Results, 1), maxResults)
	for _, h := range hits {
		e := h.segment.extents[h.chunk]
		start, end := int(e.line), int(e.line)+int(e.lines)-1
		joined := false
		for _, i := range at[h.name] {
			if r := &out[i]; start <= r.EndLine+1 && end >= r.StartLine-1 {
				r.StartLine, r.EndLine, joined = min(r.StartLine, start), max(r.EndLine, end), true
				break
			}
		}
		if joined || len(at[h.name]) == perFile || len(out) == most {
			continue
		}
		at[h.name] = append(at[h.name], len(out))
		out = append(out, Result{Path: h.name, StartLine: start, EndLine: end, Score: h.score})
		if texts[h.name] == nil {
			// A removed file has no snippet.
			texts[h.name], _, _ = read(filepath.Join(x.cfg.Dir, h.name))
		}
		r := &out[len(out)-1]
		snippet(r, texts[h.name], want)
		for _, s := range findSymbols(h.name, texts[h.name]) {
			if s.line >= start && s.line <= end && len(r.Symbols) < 8 && !slices.Contains(r.Symbols, s.name) {
				r.Symbols = append(r.Symbols, strings.ToValidUTF8(s.name, "\uFFFD"))
			}
		}
	}
	return out
}

// snippet sets a result's snippet: the lines that match the query best.
func snippet(r *Result, text []byte, want []term) {
	lines := bytes.SplitAfter(text, []byte("\n"))
	first, last := r.StartLine-1, min(r.EndLine, len(lines))
	if first >= last {
		return
	}
	lines = lines[first:last]
	weights := make(map[string]float64, len(want))
	for _, t := range want {
		weights[t.text] = t.weight
	}
	var words tokenizer
	says := make([]float64, len(lines))
	for i, line := range lines {
		seen := make(map[string]bool)
		words.each(line[:min(len(line), maxLine)], func(token []byte, _ bool) {
			if w := weights[string(token)]; w > 0 && !seen[string(token)] {
				seen[string(token)] = true
				says[i] += w
			}
		})
	}
	from, sum, top := 0, 0.0, -1.0
	for i := range lines {
		sum += says[i]
		if i >= snippetLines {
			sum -= says[i-snippetLines]
		}
		if sum > top+1e-9 {
			top, from = sum, max(0, i-snippetLines+1)
		}
	}
	to := min(from+snippetLines, len(lines))
	for from < to && len(bytes.TrimSpace(lines[from])) == 0 {
		from++
	}
	var b strings.Builder
	for _, line := range lines[from:to] {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > snippetLine {
			b.WriteString(strings.ToValidUTF8(string(line[:snippetLine]), "\uFFFD") + " [… cut]\n")
			continue
		}
		b.WriteString(strings.ToValidUTF8(string(line), "\uFFFD") + "\n")
	}
	r.SnippetLine, r.Snippet = first+from+1, strings.TrimRight(b.String(), "\n")+"\n"
}
