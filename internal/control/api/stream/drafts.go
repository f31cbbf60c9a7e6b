package stream

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/control/api/rest"
	"aloft/internal/control/live"
)

const (
	// DraftsEvery is the minimum time between two updates of what a model is
	// writing.
	draftsEvery = 100 * time.Millisecond
	// maxDraft limits how many bytes of one value a partial-tool-call update
	// contains. The tool-call-delta updates carry the whole value, up to
	// [live.MaxArgs].
	maxDraft = 1 << 10
)

// editContents maps each tool that edits files to the argument with the file's
// new content.
var editContents = map[string]string{"Write": "contents", "StrReplace": "new_string", "EditNotebook": "new_string"}

// drafts shows one client of a run's stream the calls that the model is
// writing: as partial-tool-call updates and, for file edits, tool-call-delta
// updates with the content. Drafts are not journaled and have no event id: a
// client that reconnects gets tool-call-started with all arguments.
type drafts struct {
	runID   string
	watcher *live.Watcher
	every   time.Duration
	shown   time.Time // when show last wrote
	sent    map[string]*draft
}

// draft tracks how many bytes of a call a client has seen.
type draft struct {
	serial         int64
	started        bool
	args, contents int // bytes
}

func newDrafts(runID string, watcher *live.Watcher, every time.Duration) *drafts {
	return &drafts{runID: runID, watcher: watcher, every: every, sent: map[string]*draft{}}
}

// onNews registers wake, which is called when show has something to write.
func (d *drafts) onNews(wake func()) (stop func()) {
	return d.watcher.OnNews(func() { time.AfterFunc(d.every, wake) })
}

// show appends what the model has written since the last call, if at least the
// update interval has passed. The frames carry the id of the last journaled
// frame, from which the client can resume.
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

// updates returns the updates for the part of the call that was not sent yet.
func (d *draft) updates(w live.Writing) (out []update) {
	if d.started && len(w.Args) == d.args {
		return nil
	}
	d.started = true
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
	text, err := rest.Marshal(v)
	return err != nil || len(text) > maxDraft
}

// wholeRunes returns the text without a rune that is cut off at its end, and
// the length of the result.
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

// partialObject decodes the beginning of a JSON object. The result has all
// complete members, and the available part of an incomplete string. If the text
// does not begin an object, the result is empty.
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

// cutValue splits off the JSON value at the beginning of text. If the value is
// incomplete, it returns all of the text, and false.
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
			continue // a number or literal ends at the first character that cannot belong to it
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

// highSurrogate matches the escape of a high surrogate whose low surrogate may
// still follow.
var highSurrogate = regexp.MustCompile(`^\\u[dD][89abAB][0-9a-fA-F]{2}(\\u|\\$|$)`)

// partialString decodes the beginning of a JSON string, and drops an incomplete
// escape or rune at its end.
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
