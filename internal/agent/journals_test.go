package agent

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// line is an event in testdata/journals.
type line struct {
	Seq   int64           `json:"seq"`
	RunID string          `json:"runId"`
	Time  int64           `json:"time"` // nanoseconds since 1970
	Kind  string          `json:"kind"`
	Data  json.RawMessage `json:"data"`
}

func readJournal(t *testing.T, path string) []line {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []line
	for dec := json.NewDecoder(bytes.NewReader(data)); dec.More(); {
		var l line
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

// TestJournalsOfEarlierVersions decodes and folds every journal that a released
// version has written, and checks that no data is lost. Each release adds
// files; existing files never change. VERSION-demo.jsonl is a journal of `aloft
// demo`. VERSION-every.jsonl contains every kind of event with every field set
// (go test -run TestEncodeDecode -journal FILE).
func TestJournalsOfEarlierVersions(t *testing.T) {
	files, err := filepath.Glob("testdata/journals/*.jsonl")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d journals, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".jsonl"), func(t *testing.T) {
			var events []Event
			for _, l := range readJournal(t, path) {
				body, err := Decode(l.Kind, l.Data)
				if err != nil {
					t.Fatalf("line %d: %v", l.Seq, err)
				}
				_, again, err := Encode(body)
				if err != nil {
					t.Fatal(err)
				}
				var was, is any
				if err := json.Unmarshal(l.Data, &was); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(again, &is); err != nil {
					t.Fatal(err)
				}
				if lost := missing(l.Kind, was, is); len(lost) > 0 {
					t.Errorf("line %d: lost or changed: %s", l.Seq, strings.Join(lost, ", "))
				}
				events = append(events, Event{Seq: l.Seq, RunID: l.RunID, Time: time.Unix(0, l.Time), Body: body})
			}
			s := Fold("bc-1", events)
			if s.Agent.Head != int64(len(events)) {
				t.Errorf("folded up to event %d of %d", s.Agent.Head, len(events))
			}
			if strings.HasSuffix(path, "-demo.jsonl") {
				demoFold(t, s)
			}
		})
	}
}

// demoFold checks the folded state of a demo's journal of any version.
func demoFold(t *testing.T, s *State) {
	t.Helper()
	if s.Run.Status != Finished || s.Run.Result == "" || s.Next() != NextNothing {
		t.Errorf("the run is %s with result %q; next is %v", s.Run.Status, s.Run.Result, s.Next())
	}
	if len(s.Run.Branches) != 1 || s.Run.Branches[0].Commit == "" {
		t.Errorf("branches %+v", s.Run.Branches)
	}
	if len(s.Messages) < 10 || s.Messages[0].PlainText() == "" || len(s.Asked) != 1 {
		t.Errorf("%d messages, asked %q", len(s.Messages), s.Asked)
	}
}

// missing returns the paths of values in was that are absent or different in
// is. Zero values may be absent.
func missing(path string, was, is any) []string {
	switch was := was.(type) {
	case map[string]any:
		is, _ := is.(map[string]any)
		var lost []string
		for key, v := range was {
			lost = append(lost, missing(path+"."+key, v, is[key])...)
		}
		slices.Sort(lost)
		return lost
	case []any:
		is, _ := is.([]any)
		if len(is) != len(was) {
			return []string{path}
		}
		var lost []string
		for i, v := range was {
			lost = append(lost, missing(fmt.Sprintf("%s[%d]", path, i), v, is[i])...)
		}
		return lost
	}
	if is == nil && (was == nil || reflect.ValueOf(was).IsZero()) || was == is {
		return nil
	}
	return []string{path}
}

var journalOut = flag.String("journal", "", "write every kind of event with every field set to this `file`")

// Every field of every event type survives encoding and decoding.
func TestEncodeDecode(t *testing.T) {
	var out bytes.Buffer
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		v := reflect.New(kinds[kind])
		n := 0
		fill(t, v.Elem(), kind, &n, nil)
		body, ok := v.Interface().(Body)
		if !ok {
			t.Fatalf("%s is no body", v.Type())
		}
		k, data, err := Encode(body)
		if err != nil || k != kind {
			t.Fatalf("%s: %s, %v", kind, k, err)
		}
		back, err := Decode(k, data)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(body, back); d != "" {
			t.Errorf("%s: %s", kind, d)
		}
		if err := json.NewEncoder(&out).Encode(line{Seq: int64(i + 1), RunID: "run-1", Time: int64(i), Kind: k, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	if *journalOut != "" {
		if err := os.WriteFile(*journalOut, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Decode("future.thing", []byte("{}")); err == nil {
		t.Error("an unknown kind was decoded")
	}
}

// fill sets every exported field that the journal stores to a different value.
// A struct nested in a struct of the same type stays empty.
func fill(t *testing.T, v reflect.Value, path string, n *int, within []reflect.Type) {
	t.Helper()
	*n++
	if slices.Contains(within, v.Type()) {
		return
	}
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, *n%60, 0, time.UTC)))
		return
	case json.RawMessage:
		v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, *n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("value %d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path, n, within)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), path, n, within)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, path, n, within)
		fill(t, value, path, n, within)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fill(t, v.Field(i), path+"."+f.Name, n, append(within, v.Type()))
			}
		}
	case reflect.Interface:
		if v.Type() == reflect.TypeFor[Body]() {
			v.Set(reflect.ValueOf(&TextDelta{Text: "within"}))
			return
		}
		fallthrough
	default:
		t.Fatalf("%s: fill knows no %s", path, v.Type())
	}
}
