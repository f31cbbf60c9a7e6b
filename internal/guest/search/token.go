package search

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	minToken = 2    // bytes; single letters are not indexed
	maxToken = 40   // maximum length of a part, in bytes
	maxWhole = 64   // bytes of an identifier that is indexed as a whole
	maxLine  = 2000 // bytes of a line that are indexed
)

// tokenizer splits text into tokens: whole identifiers, in lower case and
// without underscores, and the stems of their parts, so that parseConfig,
// parse_config and "parsing of configs" match each other. The zero value is
// ready to use; it is not safe for concurrent use.
type tokenizer struct {
	whole []byte
	part  []byte
}

// each calls emit for every token of text, in order. The token is only valid
// until emit returns. whole marks an identifier of several parts; its parts
// follow.
func (t *tokenizer) each(text []byte, emit func(token []byte, whole bool)) {
	for i := 0; i < len(text); {
		if !wordByte(text[i]) {
			i++
			continue
		}
		start := i
		for i < len(text) && wordByte(text[i]) {
			i++
		}
		t.word(text[start:i], emit)
	}
}

// wordByte reports whether b can be part of an identifier. Non-ASCII bytes are
// checked with their neighbors.
func wordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b >= utf8.RuneSelf
}

func (t *tokenizer) word(word []byte, emit func([]byte, bool)) {
	if word[0] >= '0' && word[0] <= '9' && len(word) > 12 || len(word) > 4*maxWhole {
		return // likely a hash, or data
	}
	t.whole = t.whole[:0]
	cuts := 0
	for rest := word; ; {
		n := nextPart(rest)
		if n == 0 {
			break
		}
		if part := bytes.Trim(rest[:n], "_"); len(part) > 0 {
			cuts++
			t.whole = appendLower(t.whole, part)
		}
		rest = rest[n:]
	}
	if cuts > 1 && len(t.whole) >= minToken && len(t.whole) <= maxWhole {
		emit(t.whole, true)
	}
	for rest := word; ; {
		n := nextPart(rest)
		if n == 0 {
			return
		}
		part := bytes.Trim(rest[:n], "_")
		rest = rest[n:]
		if len(part) < minToken || len(part) > maxToken {
			continue
		}
		if t.part = appendLower(t.part[:0], part); len(t.part) >= minToken {
			emit(stem(t.part), false)
		}
	}
}

// nextPart returns the length of the first part of an identifier, including
// leading underscores. A part ends at an underscore, at a word boundary in
// camelCase, or after an acronym, as in HTTPServer.
func nextPart(word []byte) int {
	i := 0
	for i < len(word) && word[i] == '_' {
		i++
	}
	for at := i; i < len(word); i++ {
		c := word[i]
		switch {
		case c == '_':
			return i
		case i == at || c < 'A' || c > 'Z':
		case word[i-1] < 'A' || word[i-1] > 'Z': // as in aB
			return i
		case i+1 < len(word) && word[i+1] >= 'a' && word[i+1] <= 'z': // as in ABc
			return i
		}
	}
	return i
}

func appendLower(dst, word []byte) []byte {
	for i, c := range word {
		if c >= utf8.RuneSelf {
			for _, r := range string(word[i:]) {
				if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) {
					dst = utf8.AppendRune(dst, unicode.ToLower(r))
				}
			}
			return dst
		}
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// stem removes the most common English endings, so that schedule, scheduled, scheduler
// and scheduling have the same stem. The stem need not be a word.
func stem(w []byte) []byte {
	if n := len(w); n > 4 && w[n-1] == 's' {
		switch {
		case bytes.HasSuffix(w, []byte("ies")):
			w = append(w[:n-3], 'y')
		case bytes.HasSuffix(w, []byte("sses")):
			w = w[:n-2]
		case w[n-2] != 's' && w[n-2] != 'u' && w[n-2] != 'i':
			w = w[:n-1]
		}
	}
	for _, ending := range []string{"ing", "ed", "er"} {
		if len(w) >= len(ending)+3 && len(w) > 5 && bytes.HasSuffix(w, []byte(ending)) {
			w = w[:len(w)-len(ending)]
			if n := len(w); n > 3 && w[n-1] == w[n-2] && w[n-1] != 'l' && w[n-1] != 's' {
				w = w[:n-1]
			}
			break
		}
	}
	if n := len(w); n > 4 && w[n-1] == 'e' {
		w = w[:n-1]
	}
	return w
}

// idle are the stems of stop words: words of a query that say nothing about the code.
var idle = func() map[string]bool {
	stems := make(map[string]bool)
	for word := range strings.FieldsSeq(`the is are an of in on to for and or it its that this which what where when how
		who why does do did be by with from as at we our my code find show me there can into was were has have happens used us`) {
		stems[string(stem([]byte(word)))] = true
	}
	return stems
}()

// term is a word of a query, with its weight.
type term struct {
	text   string
	weight float64
}

// terms returns the words of a query without duplicates and stop words. If all are stop
// words, it returns them all.
func terms(query string) []term {
	var found, all []term
	seen := make(map[string]bool)
	new(tokenizer).each([]byte(query), func(token []byte, whole bool) {
		text := string(token)
		if seen[text] || len(all) >= maxTerms {
			return
		}
		seen[text] = true
		t := term{text, 1}
		if whole {
			t.weight = 1.5
		}
		all = append(all, t)
		if !idle[text] {
			found = append(found, t)
		}
	})
	if len(found) == 0 {
		return all
	}
	return found
}
