package search

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// fileOf returns the index of the file that a chunk belongs to.
func (s *segment) fileOf(chunk int) int {
	return sort.Search(len(s.files), func(i int) bool { return s.files[i].first > chunk }) - 1
}

func built(f interface{ Fatal(...any) }) []byte {
	b := newBuilder()
	b.add("a.go", stamp{1, -2, 3, 4}, []byte("package a\n\nfunc Alpha() {}\n"), []symbol{{"Alpha", 3}})
	b.add("b/c.txt", stamp{5, 6, 7, 8}, nil, nil)
	b.add("d.txt", stamp{5, 6, 7, 8}, []byte(strings.Repeat("word1 word2\n\n", 200)), nil)
	var out bytes.Buffer
	if err := b.writeTo(&out); err != nil {
		f.Fatal(err)
	}
	return out.Bytes()
}

func TestSegment(t *testing.T) {
	name := filepath.Join(t.TempDir(), "1.seg")
	if err := os.WriteFile(name, built(t), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := openSegment(name, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.file.Close()
	if len(s.files) != 3 || s.files[0].stamp != (stamp{1, -2, 3, 4}) || s.files[2].name != "d.txt" || s.fileOf(0) != 0 || s.fileOf(len(s.extents)-1) != 2 {
		t.Errorf("%+v", s.files)
	}
	for token, want := range map[string]int{"alpha": 1, "word1": s.files[2].count, "zebra": 0, "": 0, "txt": s.files[2].count + 1} {
		n, postings, err := s.find(token)
		if err != nil || n != want {
			t.Errorf("%q is in %d, want %d (%v)", token, n, want, err)
		}
		if err := s.each(postings, func(int, int) { n-- }); err != nil || n != 0 {
			t.Errorf("%q: %d of its postings are not there (%v)", token, n, err)
		}
	}
	_, postings, _ := s.find("alpha")
	_ = s.each(postings, func(_, posting int) {
		if posting&inSymbol == 0 || posting>>countBit != 1 {
			t.Errorf("posting %b", posting)
		}
	})
}

// TestDamagedSegment opens and queries damaged segments. Each must return a
// result or errDamaged.
func TestDamagedSegment(t *testing.T) {
	good := built(t)
	name := filepath.Join(t.TempDir(), "1.seg")
	for i := range 2 * len(good) {
		bad := bytes.Clone(good[:min(len(good), i)])
		if i >= len(good) {
			bad = bytes.Clone(good)
			bad[i-len(good)] ^= 0x81
		}
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openSegment(name, 1)
		if err != nil {
			continue
		}
		for _, token := range []string{"alpha", "word1", "zzz"} {
			_, postings, err := s.find(token)
			if err == nil {
				err = s.each(postings, func(chunk, _ int) { s.fileOf(chunk) })
			}
			if err != nil && !errors.Is(err, errDamaged) {
				t.Errorf("with byte %d changed: %v", i-len(good), err)
			}
		}
		s.file.Close()
	}
}

// FuzzForeign passes arbitrary data to the parsers for files and programs'
// output, without a valid checksum.
func FuzzForeign(f *testing.F) {
	good := built(f)
	f.Add(good)
	f.Add([]byte("1 function main\t./a.c\nx\n-1 b c\td\n"))
	f.Add([]byte(`{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[2]}]}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		s := &segment{postings: int64(len(data))}
		_ = s.loadDictionary(data)
		_ = s.loadTables(data)
		_ = s.each(data, func(chunk, _ int) { s.fileOf(chunk) })
		_, _ = readTags(bytes.NewReader(data))
		_, _ = readVectors(data, 2)
	})
}
