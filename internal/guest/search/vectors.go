package search

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"aloft/internal/atomicfile"
)

// vectorKey identifies a text: the first bytes of its SHA-256.
type vectorKey [16]byte

func keyOf(text string) vectorKey {
	sum := sha256.Sum256([]byte(text))
	return vectorKey(sum[:16])
}

const (
	vectorsName  = "vectors"
	vectorsMagic = "aloft vectors 1\n"
	vectorsHead  = len(vectorsMagic) + 16 + 4 // and the model's hash, and the width
	maxVectors   = 16 << 10                   // vectors of one tree: 25 MB if they have 1536 numbers
	maxUnused    = maxVectors / 4             // vectors of texts that no longer exist, before the file is rewritten
)

// vectors is a file of vectors by the hash of their text, so that a text is
// embedded once. After the head, it has records of a fixed size: a key, and the
// vector, scaled to bytes. Only the directions of vectors matter.
//
// The agent's processes can write to the file too: what they write can change
// the order of results and nothing else.
type vectors struct {
	name  string
	head  []byte
	width int // 0 while the file is empty
	at    map[vectorKey]int
	count int // records
}

// openVectors opens the file of a folder. Vectors of another model are dropped.
func openVectors(dir, model string) (*vectors, error) {
	v := &vectors{name: filepath.Join(dir, vectorsName), at: make(map[vectorKey]int)}
	hash := keyOf(model)
	v.head = append([]byte(vectorsMagic), hash[:]...)
	f, err := os.Open(v.name)
	if errors.Is(err, os.ErrNotExist) {
		return v, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	head := make([]byte, vectorsHead)
	if _, err := io.ReadFull(f, head); err != nil || !bytes.Equal(head[:len(v.head)], v.head) {
		return v, nil // it is replaced at the next write
	}
	width := binary.LittleEndian.Uint32(head[len(v.head):])
	info, err := f.Stat()
	if err != nil || width == 0 || width > embedDimension || !info.Mode().IsRegular() || info.Size() > int64(vectorsHead)+int64(maxVectors+maxUnused)*int64(16+width) {
		return v, err
	}
	v.width = int(width)
	err = v.each(func(n int, key vectorKey, _ []byte) { v.at[key], v.count = n, n+1 })
	return v, err
}

// record returns the size of a record in bytes.
func (v *vectors) record() int { return len(vectorKey{}) + v.width }

// each calls do for every record of the file. The slice is valid during the
// call.
func (v *vectors) each(do func(n int, key vectorKey, vector []byte)) error {
	if v.width == 0 {
		return nil
	}
	f, err := os.Open(v.name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	size := v.record()
	buffer := make([]byte, max(1, (256<<10)/size)*size)
	in := io.NewSectionReader(f, int64(vectorsHead), int64(maxVectors+maxUnused)*int64(size))
	for n := 0; ; {
		got, err := io.ReadFull(in, buffer)
		for record := buffer[:got]; len(record) >= size; record = record[size:] {
			do(n, vectorKey(record[:16]), record[16:size])
			n++
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // a cut record is overwritten
			return nil
		case err != nil:
			return err
		}
	}
}

// add stores vectors of the same width, and removes those of texts that are not
// in use when too many of these have gathered.
func (v *vectors) add(keys []vectorKey, all [][]float32, used func(vectorKey) bool) error {
	if len(keys) == 0 {
		return nil
	}
	if len(all[0]) != v.width { // the file is new, or the endpoint has another model of the same name
		v.width, v.count, v.at = len(all[0]), 0, make(map[vectorKey]int)
	}
	var fresh []byte
	for i, key := range keys {
		fresh = append(fresh, key[:]...)
		fresh = append(fresh, quantized(all[i])...)
	}
	if v.count == 0 || v.count+len(keys) > maxVectors+maxUnused {
		return v.rewrite(keys, fresh, used)
	}
	f, err := os.OpenFile(v.name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fresh, int64(vectorsHead)+int64(v.count)*int64(v.record()))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	v.added(keys)
	return nil
}

func (v *vectors) added(keys []vectorKey) {
	for _, key := range keys {
		v.at[key] = v.count
		v.count++
	}
}

// rewrite replaces the file by one with the vectors in use and fresh records.
func (v *vectors) rewrite(keys []vectorKey, fresh []byte, used func(vectorKey) bool) (err error) {
	f, err := atomicfile.Create(v.name, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := &counted{to: bufio.NewWriter(f)}
	out.write(binary.LittleEndian.AppendUint32(bytes.Clone(v.head), uint32(v.width)))
	at, kept := make(map[vectorKey]int), 0
	if v.count > 0 {
		room := maxVectors + maxUnused - len(keys)
		err := v.each(func(n int, key vectorKey, vector []byte) {
			if v.at[key] == n && used(key) && kept < room {
				out.write(key[:])
				out.write(vector)
				at[key] = kept
				kept++
			}
		})
		if err != nil {
			return err
		}
	}
	out.write(fresh)
	if err := errors.Join(out.err, out.to.Flush()); err != nil {
		return err
	}
	if err := f.CommitUnsynced(); err != nil { // no fsync: lost vectors are computed again
		return err
	}
	v.at, v.count = at, kept
	v.added(keys)
	return nil
}

// near returns the similarity of every stored vector with a vector, from 0 to 1.
func (v *vectors) near(to []float32) (map[vectorKey]float64, error) {
	out := make(map[vectorKey]float64, v.count)
	if v.count > 0 && len(to) != v.width {
		return nil, fmt.Errorf("it sent vectors of %d numbers, and then of %d", v.width, len(to))
	}
	length := 0.0
	for _, x := range to {
		length += float64(x) * float64(x)
	}
	err := v.each(func(n int, key vectorKey, vector []byte) {
		if at, ok := v.at[key]; !ok || at != n {
			return
		}
		var dot float32
		own := 0
		for i, b := range vector {
			x := int8(b)
			dot += to[i] * float32(x)
			own += int(x) * int(x)
		}
		if own > 0 && length > 0 {
			out[key] = max(0, float64(dot)/math.Sqrt(length*float64(own)))
		}
	})
	return out, err
}

// quantized returns a vector's direction, with a byte for each number.
func quantized(v []float32) []byte {
	most := 0.0
	for _, x := range v {
		most = max(most, math.Abs(float64(x)))
	}
	out := make([]byte, len(v))
	if most == 0 || math.IsInf(most, 0) || math.IsNaN(most) {
		return out
	}
	for i, x := range v {
		out[i] = byte(int8(math.Round(float64(x) / most * math.MaxInt8)))
	}
	return out
}
