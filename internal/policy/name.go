package policy

import (
	"errors"
	"strings"

	"golang.org/x/net/idna"
)

// Errors of [CanonicalName].
var (
	errEmptyName = errors.New("it is empty")
	errLongName  = errors.New("it has more than 253 characters, or a label with more than 63")
	errBadName   = errors.New("it has characters that a domain cannot have")
)

// CanonicalName returns the canonical spelling of a domain: lower case, ASCII
// (punycode), without a trailing dot. It accepts names with underscores, as services
// use, but not addresses.
func CanonicalName(domain string) (string, error) {
	name := strings.TrimSuffix(domain, ".")
	if name == "" {
		return "", errEmptyName
	}
	if !isASCII(name) {
		// This maps all spellings that browsers treat as the same name, such as full-width
		// letters and dots.
		mapped, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", errBadName
		}
		name = strings.TrimSuffix(mapped, ".")
	}
	name = strings.ToLower(name)
	if len(name) > 253 {
		return "", errLongName
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return "", errBadName
		case len(label) > 63:
			return "", errLongName
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "", errBadName
			}
		}
		last = label
	}
	if isNumber(last) {
		return "", errBadName // an address, in one of its many spellings
	}
	return name, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// isNumber reports whether resolvers may take the last label of a name for part
// of an address: digits, or 0x and hexadecimal digits.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
