package notebook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// The functions below scan JSON that is known to be valid.

// span is a range of bytes of a text.
type span struct{ from, to int }

func (s span) slice(text []byte) []byte { return text[s.from:s.to] }

// member is a member of an object.
type member struct {
	name  string
	key   int // offset of its name
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

// skipValue returns the end of the value that begins at an offset.
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

// membersOf returns the members of the object that begins at an offset.
func membersOf(text []byte, at int) []member {
	var all []member
	at = skipSpace(text, at+1)
	for text[at] != '}' {
		key := at
		at = skipString(text, at)
		var name string
		_ = json.Unmarshal(text[key:at], &name) // it is known to be a valid string
		from := skipSpace(text, skipSpace(text, at)+1)
		to := skipValue(text, from)
		all = append(all, member{name, key, span{from, to}})
		if at = skipSpace(text, to); text[at] == ',' {
			at = skipSpace(text, at+1)
		}
	}
	return all
}

// elementsOf returns the elements of the list that begins at an offset.
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

// find returns the member with a name; if there are several, the last, as other
// parsers do.
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
	_ = json.Unmarshal(m.value.slice(text), &s) // empty if it is not a string
	return s
}

func number(text []byte, all []member, name string) int {
	m, ok := find(all, name)
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(string(m.value.slice(text))) // 0 if it is not a number
	return n
}

// decodeImage decodes an image of an output.
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

// plain removes terminal color codes from a text.
func plain(text string) string { return colours.ReplaceAllString(text, "") }
