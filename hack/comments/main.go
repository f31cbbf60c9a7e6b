// Comments prints a random sample of the comments of the Go and TypeScript
// files that git tracks, without the code around them. Give the sample to a
// reader who does not know the code, to mark each comment as clear, read twice
// or opaque. Generated files are left out. The same seed and tree give the same
// sample.
//
//	go run ./hack/comments -n 300 -seed 1
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

func main() {
	n := flag.Int("n", 300, "number of comments")
	seed := flag.Uint64("seed", 1, "seed of the sample")
	flag.Parse()
	all, err := comments()
	if err != nil {
		fmt.Fprintln(os.Stderr, "comments:", err)
		os.Exit(1)
	}
	r := rand.New(rand.NewPCG(*seed, 0)) //nolint:gosec // a sample, not a secret
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, c := range all[:min(*n, len(all))] {
		fmt.Println(c)
	}
}

// comments returns every comment as "file:line: text".
func comments() (all []string, err error) {
	out, err := exec.Command("git", "ls-files", "*.go", "*.ts", "*.tsx").Output()
	if err != nil {
		return nil, err
	}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if !generated.Match(text) {
			all = append(all, commentsOf(name, text)...)
		}
	}
	return all, nil
}

var (
	generated = regexp.MustCompile(`(?m)^(//|/\*) (Code generated|eslint-disable|@generated)`)
	directive = regexp.MustCompile(`^//(go:|nolint|lint:|line )`)
)

// commentsOf returns the comments that fill whole lines. Lines without code
// between them are one comment.
func commentsOf(name string, text []byte) (all []string) {
	var words []string
	first, block := 0, false
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for n := 1; ; n++ {
		more := lines.Scan()
		line := strings.TrimSpace(lines.Text())
		starts := strings.HasPrefix(line, "//") && !directive.MatchString(line) || strings.HasPrefix(line, "/*")
		if more && (block || starts) {
			if words == nil {
				first = n
			}
			block = (block || strings.HasPrefix(line, "/*")) && !strings.Contains(line, "*/")
			words = append(words, strings.TrimSpace(strings.Trim(strings.TrimSuffix(line, "*/"), "/*")))
			continue
		}
		if words != nil {
			all = append(all, fmt.Sprintf("%s:%d: %s", name, first, strings.TrimSpace(strings.Join(words, " "))))
			words = nil
		}
		if !more {
			return all
		}
	}
}
