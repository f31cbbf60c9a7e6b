package api

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/control/live"
)

const (
	// draftsEvery is how often at most a stream shows what a model is writing.
	draftsEvery = 100 * time.Millisecond
	// maxDraft is how much of one value is repeated with each update of a call that
	// is being written. The deltas have it whole, as far as [live.MaxArgs].
	maxDraft = 1 << 10
)

// editContents names the argument that is the file's new content, of tools that
// edit files.
var editContents = map[string]string{"Write": "contents", "StrReplace": "new_string", "EditNotebook": "new_string"}

// drafts show one client of a run's stream the calls that the model is writing:
// partial-tool-call and, where a file is edited, its content as a tool-call-delta.
// They are not in the journal and have no place of their own in the stream: a
// client that comes back gets tool-call-started with the whole arguments.
type drafts struct {
	runID   string
	watcher *live.Watcher
	every   time.Duration
	shown   time.Time // when show wrote last
	sent    map[string]*draft
}

// draft is how far a client has seen a call.
type draft struct {
	serial         int64
	told           bool
	args, contents int // bytes
}

func newDrafts(runID string, watcher *live.Watcher, every time.Duration) *drafts {
	return &drafts{runID: runID, watcher: watcher, every: every, sent: map[string]*draft{}}
}

// onNews has wake called when show has something to write.
func (d *drafts) onNews(wake func()) (stop func()) {
	return d.watcher.OnNews(func() { time.AfterFunc(d.every, wake) })
}

// show appends what was written since the last time, unless that is too recent.
// The frames have the id of the last frame from the journal, from which the client
// is to resume.
func (d *drafts) show(id string, out *bytes.Buffer) {
	if now := time.Now(); now.Sub(d.shown) >= d.every {
		d.shown = now
	} else {
		return
	}
	writings := d.watcher.Read()
	for _, w := range writings {
		if w.RunID != d.runID {
			continue
		}
		was := d.sent[w.CallID]
		if was == nil || was.serial != w.Serial {
			was = &draft{serial: w.Serial}
			d.sent[w.CallID] = was
		}
		for _, u := range was.updates(w) {
			if w.Task != "" {
				u = update{"type": "tool-call-delta", "callId": w.Task, "modelCallId": w.Task, "taskUpdate": u}
			}
			writeFrame(out, id, "interaction_update", u)
		}
	}
	for callID := range d.sent {
		if !slices.ContainsFunc(writings, func(w live.Writing) bool { return w.CallID == callID }) {
			delete(d.sent, callID)
		}
	}
}

// updates are those of what the call has more than was sent.
func (d *draft) updates(w live.Writing) (out []update) {
	if d.told && len(w.Args) == d.args {
		return nil
	}
	d.told = true
	members, cut := partialObject(w.Args), w.Cut
	contents, _ := members[editContents[w.Name]].(string)
	for name, v := range members {
		switch text, isString := v.(string); {
		case isString && len(text) > maxDraft:
			members[name], cut = strings.ToValidUTF8(text[:maxDraft], "")+"…", true
		case !isString && tooLong(v):
			delete(members, name)
			cut = true
		}
	}
	call := map[string]any{"type": publicName(w.Name), "args": members}
	if cut {
		call["truncated"] = truncationJSON{Args: true}
	}
	partial := update{"type": "partial-tool-call", "callId": w.CallID, "modelCallId": w.CallID, "toolCall": call}
	if piece, n := wholeRunes(w.Args[d.args:]); n > 0 {
		partial["argsTextDelta"] = piece
		d.args += n
	}
	out = append(out, partial)
	if len(contents) > d.contents {
		out = append(out, update{"type": "tool-call-delta", "callId": w.CallID, "modelCallId": w.CallID,
			"toolCallDelta": map[string]any{"editToolCallDelta": map[string]string{"contents": contents[d.contents:]}}})
		d.contents = len(contents)
	}
	return out
}

func tooLong(v any) bool {
	text, err := marshal(v)
	return err != nil || len(text) > maxDraft
}

// wholeRunes returns the text without a character that is cut at its end, and its
// length.
func wholeRunes(s string) (string, int) {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		if last := s[len(s)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRuneInString(last) {
				s = s[:len(s)-n]
			}
			break
		}
	}
	return s, len(s)
}

// partialObject decodes the beginning of a JSON object: its members that are
// there whole, and of a string the part that is there. What is no such object has
// no members.
func partialObject(text string) map[string]any {
	out := map[string]any{}
	rest, ok := strings.CutPrefix(strings.TrimLeft(text, jsonSpace), "{")
	for ok {
		var key, raw string
		rest = strings.TrimLeft(rest, jsonSpace)
		if key, rest, ok = cutValue(rest); !ok {
			break
		}
		name, isName := decodeString(key)
		rest, ok = strings.CutPrefix(strings.TrimLeft(rest, jsonSpace), ":")
		if !isName || !ok {
			break
		}
		rest = strings.TrimLeft(rest, jsonSpace)
		if raw, rest, ok = cutValue(rest); !ok {
			if part, isString := partialString(rest); isString {
				out[name] = part
			}
			break
		}
		var v any
		dec := json.NewDecoder(strings.NewReader(raw))
		dec.UseNumber()
		if !json.Valid([]byte(raw)) || dec.Decode(&v) != nil {
			break
		}
		out[name] = v
		rest, ok = strings.CutPrefix(strings.TrimLeft(rest, jsonSpace), ",")
	}
	return out
}

const jsonSpace = " \t\r\n"

// cutValue cuts the JSON value at the beginning of text off. Without its end it
// returns the text as it is, and false.
func cutValue(text string) (value, rest string, whole bool) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
			continue
		case c == '"':
			quoted = !quoted
		case quoted:
			continue
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case depth == 0 && (c == ',' || c == ':' || strings.IndexByte(jsonSpace, c) >= 0):
			return text[:i], text[i:], i > 0
		default:
			continue // of a number or a word, whose end shows by what follows
		}
		switch {
		case depth < 0:
			return text[:i], text[i:], i > 0
		case depth == 0 && !quoted:
			return text[:i+1], text[i+1:], true
		}
	}
	return "", text, false
}

func decodeString(raw string) (s string, ok bool) {
	ok = strings.HasPrefix(raw, `"`) && json.Unmarshal([]byte(raw), &s) == nil
	return s, ok
}

// highSurrogate is the first half of a pair, unless it is known to have no second.
var highSurrogate = regexp.MustCompile(`^\\u[dD][89abAB][0-9a-fA-F]{2}(\\u|\\$|$)`)

// partialString decodes the beginning of a JSON string, without an escape or a
// character that is cut at its end.
func partialString(raw string) (string, bool) {
	if !strings.HasPrefix(raw, `"`) {
		return "", false
	}
	end := len(raw)
	for i := 1; i < len(raw); {
		size := 1
		if raw[i] == '\\' {
			size = 2
			if i+1 < len(raw) && raw[i+1] == 'u' {
				size = 6
				if highSurrogate.MatchString(raw[i:]) {
					size = 12
				}
			}
		}
		if i+size > len(raw) {
			end = i
			break
		}
		i += size
	}
	text, _ := wholeRunes(raw[:end])
	return decodeString(text + `"`)
}
