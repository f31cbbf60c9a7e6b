package notebook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// What follows walks over JSON that was found valid.

// span is a part of a text.
type span struct{ from, to int }

func (s span) of(text []byte) []byte { return text[s.from:s.to] }

// member is one of an object.
type member struct {
	name  string
	key   int // where its name begins
	value span
}

func skipSpace(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r') {
		at++
	}
	return at
}

func skipString(text []byte, at int) int {
	for at++; text[at] != '"'; at++ {
		if text[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// skipValue returns where the value ends that begins at a place.
func skipValue(text []byte, at int) int {
	switch text[at] {
	case '"':
		return skipString(text, at)
	case '{', '[':
		for depth := 0; ; at++ {
			switch text[at] {
			case '"':
				at = skipString(text, at) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return at + 1
				}
			}
		}
	}
	for at < len(text) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(text[at])) {
		at++
	}
	return at
}

// membersOf returns what is in the object that begins at a place.
func membersOf(text []byte, at int) []member {
	var all []member
	at = skipSpace(text, at+1)
	for text[at] != '}' {
		key := at
		at = skipString(text, at)
		var name string
		_ = json.Unmarshal(text[key:at], &name) // it is a valid string
		from := skipSpace(text, skipSpace(text, at)+1)
		to := skipValue(text, from)
		all = append(all, member{name, key, span{from, to}})
		if at = skipSpace(text, to); text[at] == ',' {
			at = skipSpace(text, at+1)
		}
	}
	return all
}

// elementsOf returns what is in the list that begins at a place.
func elementsOf(text []byte, at int) []span {
	var all []span
	at = skipSpace(text, at+1)
	for text[at] != ']' {
		to := skipValue(text, at)
		all = append(all, span{at, to})
		if at = skipSpace(text, to); text[at] == ',' {
			at = skipSpace(text, at+1)
		}
	}
	return all
}

// find returns the member of that name; of two, the last, as everyone reads it.
func find(all []member, name string) (member, bool) {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].name == name {
			return all[i], true
		}
	}
	return member{}, false
}

func stringOf(text []byte, all []member, name string) string {
	m, ok := find(all, name)
	if !ok {
		return ""
	}
	var s string
	_ = json.Unmarshal(m.value.of(text), &s) // what is no string is empty
	return s
}

func number(text []byte, all []member, name string) int {
	m, ok := find(all, name)
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(string(m.value.of(text))) // what is no number is 0
	return n
}

// decodeImage decodes a picture of an output.
func decodeImage(raw json.RawMessage) []byte {
	text := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == ' ' {
			return -1
		}
		return r
	}, joined(raw))
	if text == "" {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return data
}

var colours = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// plain is text without a terminal's colours.
func plain(text string) string { return colours.ReplaceAllString(text, "") }
